"""The router under any order of events: books balance, requests end once, all repeats."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from world import World, prompt

from homeport.core.command import Command, Dispatch, Reject
from homeport.core.event import Failure
from homeport.core.ids import RequestId
from homeport.core.request import Request
from homeport.core.router import Router
from homeport.plugins.registry import POLICIES

ENDPOINTS = ("a", "b", "c")
PICK = st.integers(0, 1_000)


class RouterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(queued_max=4, wait_max=3_000_000, session_hold=2_000_000)
        self.requests: dict[RequestId, Request] = {}
        self.running: set[RequestId] = set()
        self.sent: set[RequestId] = set()
        self.commands: list[list[Command]] = []
        for name in ENDPOINTS:
            self.saw(self.world.join(name, running_max=2))
        self.joined: set[str] = set(ENDPOINTS)

    def saw(self, commands: list[Command]) -> None:
        self.commands.append(commands)
        for command in commands:
            match command:
                case Dispatch(request_id, endpoint):
                    assert request_id in self.requests, "only live requests are dispatched"
                    assert request_id not in self.running
                    assert endpoint in self.joined
                    self.running.add(request_id)
                case Reject(request_id):
                    assert request_id not in self.running
                    del self.requests[request_id]
                case _:
                    pass

    def one_of(self, ids: set[RequestId], pick: int) -> Request:
        return self.requests[sorted(ids)[pick % len(ids)]]

    @rule(parts=st.lists(st.sampled_from("xyz"), min_size=1, max_size=4), key=st.integers(0, 3))
    def arrive(self, parts: list[str], key: int) -> None:
        request = self.world.request(prompt(*parts), session=f"s{key}" if key else None)
        self.requests[request.id] = request
        self.saw(self.world.arrive(request))

    @precondition(lambda self: self.running - self.sent)
    @rule(pick=PICK)
    def first_byte(self, pick: int) -> None:
        request = self.one_of(self.running - self.sent, pick)
        self.sent.add(request.id)
        self.world.first_byte(request)

    @precondition(lambda self: self.running)
    @rule(pick=PICK, cached=st.sampled_from([None, 0, 500]))
    def end(self, pick: int, cached: int | None) -> None:
        request = self.one_of(self.running, pick)
        self.running.discard(request.id)
        del self.requests[request.id]
        self.saw(self.world.end(request, cached=cached))

    @precondition(lambda self: self.running - self.sent)
    @rule(pick=PICK, failure=st.sampled_from([Failure.CONNECT, Failure.RESET, Failure.BUSY]))
    def fail(self, pick: int, failure: Failure) -> None:
        request = self.one_of(self.running - self.sent, pick)
        self.running.discard(request.id)
        self.saw(self.world.fail(request, failure))

    @precondition(lambda self: self.requests)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        request = self.one_of(set(self.requests), pick)
        self.running.discard(request.id)
        del self.requests[request.id]
        self.saw(self.world.cancel(request))

    @rule(name=st.sampled_from(ENDPOINTS), healthy=st.booleans())
    def probe(self, name: str, healthy: bool) -> None:
        self.saw(self.world.probe(name, healthy))

    @rule(name=st.sampled_from(ENDPOINTS), running=st.integers(0, 3))
    def sample(self, name: str, running: int) -> None:
        self.saw(self.world.sample(name, running=running, waiting=0, kv_tokens=4_000))

    @rule(name=st.sampled_from(ENDPOINTS))
    def leave_or_join(self, name: str) -> None:
        if name in self.joined:
            self.joined.discard(name)
            self.saw(self.world.leave(name))
        else:
            self.joined.add(name)
            self.saw(self.world.join(name, running_max=2))

    @rule(seconds=st.floats(0, 2))
    def time_passes(self, seconds: float) -> None:
        self.world.wait(seconds)
        self.saw(self.world.fire())

    @invariant()
    def what_runs_is_what_is_charged(self) -> None:
        assert set(self.world.router.ledger.charges) == self.running
        assert set(self.world.router.live) == set(self.requests)

    def teardown(self) -> None:
        for request_id in sorted(self.requests):
            if request_id in self.requests:
                request = self.requests.pop(request_id)
                self.running.discard(request_id)
                self.saw(self.world.cancel(request))
        assert self.world.router.flow.queued == 0
        assert not self.world.router.ledger.charges
        assert not any(self.world.router.ledger.own)
        assert not self.world.router.live
        self.the_same_again()

    def the_same_again(self) -> None:
        again = Router(POLICIES)
        told = [again.handle(event, now) for event, now in self.world.events]
        assert [commands for commands in told if commands] == [c for c in self.commands if c]
        assert again.digest() == self.world.router.digest()


RouterMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, derandomize=True, deadline=None
)
TestRouter = RouterMachine.TestCase
