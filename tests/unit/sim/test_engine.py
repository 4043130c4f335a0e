"""The engine against cases worked out by hand."""

import msgspec

from homeport.core.ids import Instant
from homeport.sim.engine import Engine
from homeport.sim.job import Finish, Job, JobId, Output
from homeport.sim.profile import PROFILES, Profile

ROUND = Profile(
    name="round",
    accelerator="none",
    kv_tokens=160,
    prefill_tokens_per_s=1_000,
    prefill_context_tokens=10**15,
    step_base_ms=10,
    step_per_sequence_ms=1,
    step_per_million_context_ms=0,
    block_tokens=10,
    chunk_tokens=100,
)
"""1 ms a prompt token, 10 ms + 1 ms a sequence for a decode step, 16 blocks of 10."""


def job(name: str, prompt: int, output: int, blocks: tuple[int, ...] = ()) -> Job:
    return Job(JobId(name), prompt, output, blocks)


def names(seed: int, count: int) -> tuple[int, ...]:
    return tuple(seed * 1_000 + index for index in range(count))


def drain(engine: Engine) -> list[tuple[int, Output]]:
    """Run until nothing is left; outputs with the instants at which they came."""
    seen: list[tuple[int, Output]] = []
    while (at := engine.next_at()) is not None:
        seen.extend((at, output) for output in engine.advance(at))
        engine.check()
    return seen


def test_first_token_and_decode_of_a_cold_prompt() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 50, 3), Instant(0))
    seen = drain(engine)
    assert [at for at, _ in seen] == [50_000, 61_000, 72_000]
    assert [output.is_first for _, output in seen] == [True, False, False]
    assert [output.finish for _, output in seen] == [None, None, Finish.LENGTH]


def test_the_study_formulas_at_a_long_prompt() -> None:
    """100k tokens at 20k/s: 5 s x (1 + 50k/250k) = 6 s; then 18 + 0.15 + 6 x 0.100001 ms."""
    engine = Engine(PROFILES["h200-moe"])
    engine.submit(job("a", 100_000, 2), Instant(0))
    first, second = (at for at, _ in drain(engine))
    assert first == 6_000_000
    assert second - first == 18_751  # 18.750006 ms, rounded up


def test_a_warm_turn_computes_only_what_is_new() -> None:
    engine = Engine(ROUND)
    blocks = names(1, 9)
    engine.submit(job("a", 50, 1, blocks[:5]), Instant(0))
    drain(engine)
    engine.submit(job("b", 85, 1, blocks), Instant(1_000_000))
    ((at, output),) = drain(engine)
    assert output.cached_tokens == 50
    assert at == 1_000_000 + 35_000


def test_a_prompt_that_is_all_cached_computes_its_last_block() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 50, 1, names(1, 5)), Instant(0))
    drain(engine)
    engine.submit(job("b", 50, 1, names(1, 5)), Instant(1_000_000))
    ((at, output),) = drain(engine)
    assert output.cached_tokens == 40
    assert at == 1_010_000


def test_a_step_takes_its_base_at_least() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 3, 1), Instant(0))
    assert drain(engine)[0][0] == 10_000


def test_the_answer_is_part_of_the_next_prompt() -> None:
    """The last token of an answer is never computed: 50 + 20 tokens leave 6 full blocks."""
    engine = Engine(ROUND)
    engine.submit(job("a", 50, 20, names(1, 7)), Instant(0))
    drain(engine)
    assert engine.stats().cached_blocks == 6
    engine.submit(job("b", 80, 1, names(1, 8)), Instant(10_000_000))
    assert drain(engine)[0][1].cached_tokens == 60


def test_long_prompts_are_cut_and_mixed_with_decode() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 10, 3), Instant(0))
    engine.submit(job("b", 120, 1), Instant(5_000))
    seen = [(at, output.job_id) for at, output in drain(engine)]
    # a: 10 ms. Then 99 of b's tokens with one of a's: 99 + 11 ms. Then the 21 left: 21 + 11.
    assert seen == [(10_000, "a"), (120_000, "a"), (152_000, "a"), (152_000, "b")]


def test_sequences_admitted_together_share_what_the_first_computes() -> None:
    engine = Engine(ROUND)
    engine.submit(job("x", 10, 2), Instant(0))
    engine.submit(job("a", 35, 1, names(1, 3)), Instant(1))
    engine.submit(job("b", 35, 1, names(1, 3)), Instant(2))
    cached = {output.job_id: output.cached_tokens for _, output in drain(engine)}
    assert cached == {"x": 0, "a": 0, "b": 30}


def test_tails_are_evicted_before_heads() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 100, 1, names(1, 10)), Instant(0))
    drain(engine)
    engine.submit(job("b", 100, 1, names(2, 10)), Instant(1_000_000))
    drain(engine)
    # 16 blocks: b took the 6 free ones and the last 4 of a's.
    engine.submit(job("c", 100, 1, names(1, 10)), Instant(2_000_000))
    assert drain(engine)[0][1].cached_tokens == 60


def test_the_least_recently_used_prompt_goes_first() -> None:
    engine = Engine(ROUND)
    for at, (name, seed) in enumerate([("a", 1), ("b", 2), ("a2", 1), ("c", 3)]):
        engine.submit(job(name, 60, 1, names(seed, 6)), Instant(at * 1_000_000))
        drain(engine)
    assert engine.cache.match(names(1, 6), 6) == 6
    assert engine.cache.match(names(2, 6), 6) == 4


def test_the_latest_arrival_is_preempted_and_computed_anew() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 79, 30), Instant(0))
    engine.submit(job("b", 69, 30), Instant(1))
    ends = {str(o.job_id): at for at, o in drain(engine) if o.finish}
    assert engine.stats().preemptions == 1
    assert ends["a"] < ends["b"]
    assert engine.stats().output_tokens == 60


def test_one_more_than_max_running_waits() -> None:
    engine = Engine(msgspec.structs.replace(ROUND, max_running=1))
    engine.submit(job("a", 10, 2), Instant(0))
    engine.submit(job("b", 10, 1), Instant(1))
    assert engine.stats().waiting == 1
    assert [(at, o.job_id) for at, o in drain(engine)] == [
        (10_000, "a"),
        (21_000, "a"),
        (31_000, "b"),
    ]


def test_cancel_frees_slot_and_blocks_at_once() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 90, 5), Instant(0))
    assert engine.stats().running == 1
    engine.cancel(JobId("a"), Instant(10))
    stats = engine.stats()
    assert (stats.running, stats.kv_usage, stats.aborted) == (0, 0.0, 1)
    assert drain(engine) == []
    engine.cancel(JobId("a"), Instant(20))


def test_cancel_lets_the_queue_move() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 150, 5), Instant(0))
    engine.submit(job("b", 150, 1), Instant(1))
    engine.cancel(JobId("a"), Instant(2))
    assert [o.job_id for _, o in drain(engine)] == ["b"]


def test_clear_cache_forgets() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 50, 1, names(1, 5)), Instant(0))
    drain(engine)
    engine.clear_cache(Instant(1_000_000))
    engine.submit(job("b", 50, 1, names(1, 5)), Instant(1_000_000))
    assert drain(engine)[0][1].cached_tokens == 0


def test_counters() -> None:
    engine = Engine(ROUND)
    engine.submit(job("a", 50, 3, names(1, 5)), Instant(0))
    drain(engine)
    engine.submit(job("b", 55, 3, names(1, 5)), Instant(1_000_000))
    drain(engine)
    stats = engine.stats()
    assert (stats.prefix_queries, stats.prefix_hits) == (105, 50)
    assert (stats.prompt_tokens, stats.output_tokens, stats.cut) == (105, 6, 2)
    assert stats.busy_us == 50_000 + 22_000 + 10_000 + 22_000


def test_a_stride_ends_at_the_same_instant_as_its_tokens_one_by_one() -> None:
    one, many = Engine(PROFILES["h200-moe"]), Engine(PROFILES["h200-moe"], stride_max=10_000)
    for engine in (one, many):
        engine.submit(job("a", 1_000, 400), Instant(0))
        engine.submit(job("b", 2_000, 300), Instant(500))
    slow, fast = drain(one), drain(many)
    assert len(fast) < 10 < len(slow)
    assert [(at, o.job_id) for at, o in fast if o.finish] == [
        (at, o.job_id) for at, o in slow if o.finish
    ]
