"""Sessions under any order of turns: commitments add up, and open ones are never forgotten."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from world import World, prompt

from homeport.core.ids import Instant
from homeport.core.request import Request
from homeport.core.session import Session, Sessions

SLOTS = 3
HOLD = 1_000
PICK = st.integers(0, 1_000)


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.words = World()
        self.sessions = Sessions(hold=HOLD)
        self.now = Instant(0)
        self.turns: list[tuple[Request, Session]] = []
        for _ in range(SLOTS):
            self.sessions.grow()

    @rule(parts=st.lists(st.sampled_from("xy"), min_size=1, max_size=4), key=st.integers(0, 2))
    def begin(self, parts: list[str], key: int) -> None:
        request = self.words.request(prompt(*parts), session=f"s{key}" if key else None)
        session = self.sessions.begin_turn(request, self.now)
        is_fork = any(session is other for _, other in self.turns)
        assert request.session is not None or not is_fork, "by content only an idle one goes on"
        self.turns.append((request, session))

    @precondition(lambda self: self.turns)
    @rule(pick=PICK, slot=st.integers(0, SLOTS - 1), tokens=st.integers(0, 10_000))
    def place(self, pick: int, slot: int, tokens: int) -> None:
        request, session = self.turns[pick % len(self.turns)]
        self.sessions.settle_at(session, slot, request, tokens)
        assert (session.home, session.newest) == (slot, request.id)

    @precondition(lambda self: self.turns)
    @rule(pick=PICK, output=st.integers(0, 500))
    def answer(self, pick: int, output: int) -> None:
        _, session = self.turns[pick % len(self.turns)]
        self.sessions.answered(session, 1_000, output)

    @precondition(lambda self: self.turns)
    @rule(pick=PICK)
    def end(self, pick: int) -> None:
        _, session = self.turns.pop(pick % len(self.turns))
        self.sessions.end_turn(session, self.now)

    @rule(slot=st.integers(0, SLOTS - 1))
    def evict(self, slot: int) -> None:
        self.sessions.evict(slot)
        assert self.sessions.live_sessions[slot] == 0

    @rule(passed=st.integers(0, 2 * HOLD))
    def time_passes(self, passed: int) -> None:
        self.now = Instant(self.now + passed)
        self.sessions.expire(self.now)
        for session in self.sessions.idle.values():
            assert self.now - session.idle_since <= HOLD

    @invariant()
    def all_adds_up(self) -> None:
        self.sessions.check()
        for _, session in self.turns:
            assert self.sessions.live[session.key] is session, "an open turn has its session"

    def teardown(self) -> None:
        for _, session in self.turns:
            self.sessions.end_turn(session, self.now)
        self.sessions.expire(Instant(self.now + HOLD + 1))
        assert not self.sessions.live and not self.sessions.tails
        assert self.sessions.committed_tokens == self.sessions.live_sessions == [0] * SLOTS


SessionMachine.TestCase.settings = settings(max_examples=60, derandomize=True, deadline=None)
TestSession = SessionMachine.TestCase
