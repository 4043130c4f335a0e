"""The queue against a list: first come first served for each model, bounds of all together."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from homeport.core.flow import Flow, Waiting
from homeport.core.ids import Instant, ModelName, RequestId

MODELS = [ModelName("m"), ModelName("n")]
WAIT_MAX = 1_000


class FlowMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.flow = Flow(queued_max=6, queued_bytes_max=500)
        self.expected: list[Waiting] = []
        self.now = Instant(0)
        self.number = 0

    def of(self, model: ModelName) -> list[Waiting]:
        return [waiting for waiting in self.expected if waiting.model == model]

    @rule(model=st.sampled_from(MODELS), size=st.integers(0, 300), is_first=st.booleans())
    def enqueue(self, model: ModelName, size: int, is_first: bool) -> None:
        if not self.flow.has_room(size):
            total = sum(waiting.body_bytes for waiting in self.expected)
            assert len(self.expected) == 6 or total + size > 500
            return
        self.number += 1
        heads = self.of(model)[:1] if is_first else []
        expires_at = min([self.now + WAIT_MAX, *(head.expires_at for head in heads)])
        waiting = Waiting(RequestId(f"r{self.number}"), model, size, Instant(expires_at))
        self.flow.enqueue(waiting, is_first)
        self.expected.insert(0 if is_first else len(self.expected), waiting)

    @precondition(lambda self: self.expected)
    @rule(pick=st.integers(0, 100))
    def remove(self, pick: int) -> None:
        waiting = self.expected.pop(pick % len(self.expected))
        assert self.flow.remove(waiting.model, waiting.request_id)
        assert not self.flow.remove(waiting.model, waiting.request_id), "only once"

    @rule(passed=st.integers(0, 700))
    def time_passes(self, passed: int) -> None:
        self.now = Instant(self.now + passed)
        due = [waiting for waiting in self.expected if waiting.expires_at <= self.now]
        found = self.flow.expired(self.now)
        assert sorted(w.request_id for w in found) == sorted(w.request_id for w in due)

    @invariant()
    def it_is_the_list(self) -> None:
        self.flow.check()
        for model in MODELS:
            assert self.flow.waiting(model) == self.of(model)
            assert self.flow.head(model) == next(iter(self.of(model)), None)
        expiries = [waiting.expires_at for waiting in self.expected]
        assert self.flow.next_expiry() == (min(expiries) if expiries else None)


FlowMachine.TestCase.settings = settings(max_examples=40, derandomize=True, deadline=None)
TestFlow = FlowMachine.TestCase
