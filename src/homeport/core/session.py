"""Sessions: conversations whose next turn should go where their context is.

A session is known by the key that its client sends, within its tenant. Where there is none it is
known by content: a prompt that extends the newest prompt of a session is its next turn. A prompt
that extends a session whose turn is still running is a fork, a session of its own: an agent waits
for the answer before it goes on. What has been idle for longer than `hold` is forgotten.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from homeport.core.endpoint import Slot
from homeport.core.ids import BlockHash, Instant, TenantName
from homeport.core.request import Prompt, Request

SESSIONS_MAX = 50_000

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


@dataclass(slots=True)
class Session:
    """One conversation. Token counts are of its newest turn."""

    id: str
    tenant: TenantName
    last_seen: Instant
    home: Slot | None = None
    running: int = 0
    turns: int = 0
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
    def context_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


@dataclass(slots=True)
class Sessions:
    """All live sessions, idle longest first, and what they commit, in columns by slot."""

    hold: int = 300_000_000
    live: OrderedDict[str, Session] = field(default_factory=OrderedDict[str, Session])
    tails: dict[Tail, str] = field(default_factory=dict[Tail, str])
    committed_tokens: list[int] = field(default_factory=list[int])
    live_sessions: list[int] = field(default_factory=list[int])

    def grow(self) -> None:
        self.committed_tokens.append(0)
        self.live_sessions.append(0)

    def of(self, request: Request, now: Instant) -> Session:
        """The session that this request is a turn of; a new one when it is the first."""
        self.expire(now)
        session = self.by_key(request) if request.session else self.by_content(request)
        if session is None:
            name = f"{request.tenant}/{request.session or '~' + request.id}"
            session = self.live[name] = Session(name, request.tenant, now)
        session.last_seen = now
        self.live.move_to_end(session.id)
        return session

    def by_key(self, request: Request) -> Session | None:
        return self.live.get(f"{request.tenant}/{request.session}")

    def by_content(self, request: Request) -> Session | None:
        prompt, get = request.prompt, self.tails.get
        for turn in prompt.turns[1:]:
            name = get((request.tenant, turn))
            if name is not None:
                return self.if_idle(name, prompt)
        if is_single_text(prompt):
            for block in reversed(prompt.blocks):
                name = get((request.tenant, block))
                if name is not None:
                    return self.if_idle(name, prompt)
        return None

    def if_idle(self, name: str, prompt: Prompt) -> Session | None:
        session = self.live[name]
        is_next = not session.running and prompt.text_bytes > session.text_bytes
        return session if is_next else None

    def settle_at(self, session: Session, slot: Slot, prompt: Prompt, tokens: int) -> None:
        """A turn was dispatched there: it is home now, and this prompt the newest."""
        self.uncommit(session)
        session.home = slot
        session.running += 1
        session.turns += 1
        session.prompt_tokens, session.output_tokens = tokens, 0
        session.text_bytes = prompt.text_bytes
        session.is_answered = False
        session.blocks = len(prompt.blocks)
        session.last_block = prompt.blocks[-1] if prompt.blocks else None
        self.commit(session)
        self.clear_tails(session)
        session.tails = tails_of(session.tenant, prompt)
        for tail in session.tails:
            self.tails[tail] = session.id

    def clear_tails(self, session: Session) -> None:
        for tail in session.tails:
            if self.tails.get(tail) == session.id:
                del self.tails[tail]
        session.tails = ()

    def leg_ended(self, session: Session) -> None:
        session.running -= 1

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
        while self.live:
            session = next(iter(self.live.values()))
            is_idle = not session.running and now - session.last_seen > self.hold
            if not is_idle and len(self.live) < SESSIONS_MAX:
                return
            if session.running:
                self.live.move_to_end(session.id)
                return
            self.forget(session)

    def forget(self, session: Session) -> None:
        self.uncommit(session)
        self.clear_tails(session)
        del self.live[session.id]

    def check(self) -> None:
        """The invariants, for tests and simulation."""
        for slot in range(len(self.live_sessions)):
            here = [s for s in self.live.values() if s.home == slot]
            assert self.live_sessions[slot] == len(here), f"sessions of slot {slot}"
            assert self.committed_tokens[slot] == sum(s.context_tokens for s in here)
        for tail, name in self.tails.items():
            assert tail in self.live[name].tails, f"tail of {name}"

    def state(self) -> list[object]:
        return [
            (
                s.id,
                s.last_seen,
                s.home,
                s.running,
                s.turns,
                s.tails,
                s.prompt_tokens,
                s.output_tokens,
            )
            for s in self.live.values()
        ]
