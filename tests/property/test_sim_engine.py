"""Whatever is submitted and cancelled, the engine keeps its books; and strides change nothing."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from homeport.core.ids import Instant
from homeport.sim.engine import Engine
from homeport.sim.job import Job, JobId
from homeport.sim.profile import Profile

SMALL = Profile(
    name="small",
    accelerator="none",
    kv_tokens=96,
    prefill_tokens_per_s=1_000,
    prefill_context_tokens=500,
    step_base_ms=10,
    step_per_sequence_ms=0.7,
    step_per_million_context_ms=1_234,
    block_tokens=4,
    chunk_tokens=24,
    max_running=4,
)


class EngineMachine(RuleBasedStateMachine):
    """Two engines with the same work: one takes token by token, one strides."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.jobs = 0
        self.engines = (Engine(SMALL), Engine(SMALL, stride_max=50))
        self.tokens: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.moments: tuple[list[object], list[object]] = ([], [])

    @rule(
        prompt=st.integers(1, 60),
        output=st.integers(1, 36),
        family=st.integers(0, 3),
        named=st.booleans(),
    )
    def submit(self, prompt: int, output: int, family: int, named: bool) -> None:
        self.jobs += 1
        blocks = tuple(family * 100 + i for i in range((prompt + output) // 4)) if named else ()
        job = Job(JobId(f"j{self.jobs}"), prompt, output, blocks)
        for engine in self.engines:
            engine.submit(job, Instant(self.now))

    @rule(back=st.integers(0, 5))
    def cancel(self, back: int) -> None:
        for engine in self.engines:
            engine.cancel(JobId(f"j{self.jobs - back}"), Instant(self.now))

    @rule()
    def clear(self) -> None:
        for engine in self.engines:
            engine.clear_cache(Instant(self.now))

    @rule(duration=st.integers(0, 400_000))
    def wait(self, duration: int) -> None:
        self.now += duration
        for engine, tokens, moments in zip(self.engines, self.tokens, self.moments, strict=True):
            while (at := engine.next_at()) is not None and at <= self.now:
                run(engine, at, tokens, moments)

    @invariant()
    def books_are_right(self) -> None:
        for engine in self.engines:
            engine.check()

    def teardown(self) -> None:
        self.wait(10**9)
        assert self.moments[0] == self.moments[1]
        assert self.tokens[0] == self.tokens[1]
        for engine in self.engines:
            stats = engine.stats()
            assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0.0)
        assert self.engines[0].stats() == self.engines[1].stats()
        assert list(self.engines[0].cache.idle) == list(self.engines[1].cache.idle)


def run(engine: Engine, at: Instant, tokens: dict[str, int], moments: list[object]) -> None:
    for output in engine.advance(at):
        tokens[output.job_id] = tokens.get(output.job_id, 0) + output.tokens
        if output.is_first or output.finish:
            moments.append((at, output.job_id, output.cached_tokens, output.finish))


EngineMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True
)
TestEngine = EngineMachine.TestCase
