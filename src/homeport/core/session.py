"""Sessions: conversations whose next turn should go where their context is.

A session is known by the key that its client sends, within its tenant. Where there is none it is
known by content: a prompt that extends the newest prompt of a session is its next turn. A prompt
that extends a session whose turn is still open is a fork, a session of its own: an agent waits for
the answer before it goes on. A turn is open from its arrival to its end, whether it waits or runs.
A session is idle from the end of its last turn on, and forgotten after `hold`.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from msgspec import Struct

from homeport.core.endpoint import Slot
from homeport.core.ids import BlockHash, Instant, RequestId, TenantName
from homeport.core.request import Prompt, Request

SESSIONS_MAX = 50_000

Key = tuple[TenantName, str]
"""The client's key for it; a request's id after a tilde where it has none."""
Tail = tuple[TenantName, BlockHash]


def tails_of(tenant: TenantName, prompt: Prompt) -> tuple[Tail, ...]:
    """What will be found in a prompt that extends this one.

    A conversation ends at its newest turn, exactly. A single text may go on in the middle, so its
    last whole block stands for it too; what follows that block cannot be compared.
    """
    tails = [(tenant, turn) for turn in prompt.turns[:1]]
    if is_single_text(prompt) and prompt.blocks:
        tails.append((tenant, prompt.blocks[-1]))
    return tuple(tails)


def is_single_text(prompt: Prompt) -> bool:
    return len(prompt.turns) <= 1


class Session(Struct, gc=False):
    """One conversation. Token counts are of its newest turn."""

    key: Key
    idle_since: Instant
    home: Slot | None = None
    open_turns: int = 0
    turns: int = 0
    """How many times it was dispatched."""
    newest: RequestId | None = None
    """The request of its newest turn."""
    tails: tuple[Tail, ...] = ()
    """What the next turn's prompt will contain: see `tails_of`."""
    blocks: int = 0
    last_block: BlockHash | None = None
    text_bytes: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    is_answered: bool = False
    """The newest turn was answered at home, so that its context is surely there."""
    generated: BlockHash | None = None
    """The name of its last answer in the home's shadow."""

    def is_extended_by(self, prompt: Prompt) -> bool:
        """Whether the prompt begins with the whole newest prompt, as far as hashes can tell."""
        if any(block in prompt.turns[1:] for _, block in self.tails):
            return True
        depth = self.blocks
        return 0 < depth <= len(prompt.blocks) and prompt.blocks[depth - 1] == self.last_block

    @property
    def id(self) -> str:
        """Its name for people."""
        return "/".join(self.key)

    @property
    def context_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


@dataclass(slots=True)
class Sessions:
    """All live sessions, and what they commit, in columns by slot."""

    hold: int = 300_000_000
    live: dict[Key, Session] = field(default_factory=dict[Key, Session])
    idle: OrderedDict[Key, Session] = field(default_factory=OrderedDict[Key, Session])
    """Those without an open turn, idle longest first."""
    tails: dict[Tail, Key] = field(default_factory=dict[Tail, Key])
    committed_tokens: list[int] = field(default_factory=list[int])
    live_sessions: list[int] = field(default_factory=list[int])

    def grow(self) -> None:
        self.committed_tokens.append(0)
        self.live_sessions.append(0)

    def begin_turn(self, request: Request, now: Instant) -> Session:
        """The session that this request is a turn of; a new one when it is the first."""
        self.expire(now)
        session = self.by_key(request) if request.session else self.by_content(request)
        if session is None:
            key = (request.tenant, request.session or f"~{request.id}")
            session = self.live[key] = Session(key, now)
        self.idle.pop(session.key, None)
        session.open_turns += 1
        return session

    def end_turn(self, session: Session, now: Instant) -> None:
        """The request has ended, however it did. A session that was never placed is none."""
        session.open_turns -= 1
        if session.open_turns:
            return
        session.idle_since = now
        if session.turns:
            self.idle[session.key] = session
        else:
            self.forget(session)

    def by_key(self, request: Request) -> Session | None:
        return self.live.get((request.tenant, request.session or ""))

    def by_content(self, request: Request) -> Session | None:
        prompt, get = request.prompt, self.tails.get
        for turn in prompt.turns[1:]:
            key = get((request.tenant, turn))
            if key is not None:
                return self.if_idle(key, prompt)
        if is_single_text(prompt):
            for block in reversed(prompt.blocks):
                key = get((request.tenant, block))
                if key is not None:
                    return self.if_idle(key, prompt)
        return None

    def if_idle(self, key: Key, prompt: Prompt) -> Session | None:
        session = self.live[key]
        is_next = not session.open_turns and prompt.text_bytes > session.text_bytes
        return session if is_next else None

    def settle_at(self, session: Session, slot: Slot, request: Request, tokens: int) -> None:
        """A turn was dispatched there: it is home now, and this prompt the newest."""
        prompt = request.prompt
        if session.home is not None:
            self.uncommit(session)
        session.home = slot
        session.turns += 1
        session.newest = request.id
        session.prompt_tokens, session.output_tokens = tokens, 0
        session.text_bytes = prompt.text_bytes
        session.is_answered = False
        session.blocks = len(prompt.blocks)
        session.last_block = prompt.blocks[-1] if prompt.blocks else None
        self.commit(session)
        if session.tails:
            self.clear_tails(session)
        session.tails = tails_of(session.key[0], prompt)
        for tail in session.tails:
            self.tails[tail] = session.key

    def clear_tails(self, session: Session) -> None:
        for tail in session.tails:
            if self.tails.get(tail) == session.key:
                del self.tails[tail]
        session.tails = ()

    def answered(self, session: Session, prompt_tokens: int, output_tokens: int) -> None:
        """The engine said how long the turn really was."""
        self.uncommit(session)
        session.prompt_tokens, session.output_tokens = prompt_tokens, output_tokens
        session.is_answered = True
        self.commit(session)

    def commit(self, session: Session) -> None:
        if session.home is not None:
            self.committed_tokens[session.home] += session.context_tokens
            self.live_sessions[session.home] += 1

    def uncommit(self, session: Session) -> None:
        if session.home is not None:
            self.committed_tokens[session.home] -= session.context_tokens
            self.live_sessions[session.home] -= 1

    def leave_home(self, session: Session) -> None:
        """Its context is not there any more."""
        self.uncommit(session)
        session.home = None
        session.is_answered = False
        session.generated = None

    def evict(self, slot: Slot) -> None:
        """The endpoint has lost its cache: nobody is at home there."""
        for session in self.live.values():
            if session.home == slot:
                self.leave_home(session)

    def expire(self, now: Instant) -> None:
        while self.idle:
            session = next(iter(self.idle.values()))
            if now - session.idle_since <= self.hold and len(self.live) < SESSIONS_MAX:
                return
            self.forget(session)

    def forget(self, session: Session) -> None:
        self.uncommit(session)
        self.clear_tails(session)
        del self.live[session.key]
        self.idle.pop(session.key, None)

    def check(self) -> None:
        """The invariants, for tests and simulation."""
        for slot in range(len(self.live_sessions)):
            here = [s for s in self.live.values() if s.home == slot]
            assert self.live_sessions[slot] == len(here), f"sessions of slot {slot}"
            assert self.committed_tokens[slot] == sum(s.context_tokens for s in here)
        idle = {s.key for s in self.live.values() if not s.open_turns}
        assert idle == set(self.idle), "who has no open turn is idle"
        for tail, key in self.tails.items():
            assert tail in self.live[key].tails, f"tail of {key}"

    def state(self) -> list[object]:
        return [
            (
                s.key,
                s.idle_since,
                s.home,
                s.open_turns,
                s.turns,
                s.tails,
                s.prompt_tokens,
                s.output_tokens,
            )
            for s in self.live.values()
        ]
