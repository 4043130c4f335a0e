"""Where requests go."""

from math import isfinite

import pytest
from world import World, decided, placed, prompt, refused

from homeport.core.event import ConfigChanged, Failure, Outcome, RequestEnded, Settings
from homeport.core.ids import BlockHash, Bytes, Tokens
from homeport.core.refusal import Reason
from homeport.core.request import Prompt, Usage

FIRST = prompt("system", "task", part_bytes=8_000)
SECOND = prompt("system", "task", "answer", "result", part_bytes=8_000)


def test_the_next_turn_of_a_keyed_session_goes_home() -> None:
    world = World("a", "b", "c")
    home = world.serve(world.request(FIRST, session="s"))
    parts = ["system", "task"]
    for turn in range(4):
        parts += [f"answer{turn}", f"result{turn}"]
        said = prompt(*parts, part_bytes=8_000)
        assert world.serve(world.request(said, session="s")) == home


def test_the_next_turn_is_known_by_its_content() -> None:
    world = World("a", "b", "c")
    home = world.serve(world.request(FIRST))
    decision = decided(world.arrive(world.request(SECOND)))
    assert decision.winner == home
    assert decision.home == home
    assert decision.predicted_cached_tokens > 0.9 * FIRST.text_bytes / 4


def test_a_single_text_that_grows_is_one_session() -> None:
    world = World("a", "b", "c")
    whole = prompt("x", "y", part_bytes=8_000)
    short = Prompt(whole.blocks[:30], (BlockHash(1),), Bytes(7_700))
    long = Prompt(whole.blocks, (BlockHash(2),), Bytes(16_000))
    home = world.serve(world.request(short))
    assert decided(world.arrive(world.request(long))).home == home


def test_a_prompt_that_extends_a_running_turn_is_a_fork() -> None:
    world = World("a", "b")
    first = world.request(FIRST)
    home = placed(world.arrive(first))
    decision = decided(world.arrive(world.request(SECOND)))
    assert decision.home is None, "an agent waits for its answer, so this is somebody else"
    assert decision.winner == home, "what was dispatched there counts as present"


def test_a_session_key_belongs_to_its_tenant() -> None:
    world = World("a", "b")
    world.serve(world.request(FIRST, session="s", tenant="one"))
    decision = decided(world.arrive(world.request(SECOND, session="s", tenant="two")))
    assert decision.home is None


def test_cold_requests_spread() -> None:
    world = World("a", "b", "c", "d")
    where = [placed(world.arrive(world.request(prompt(f"cold{i}")))) for i in range(8)]
    assert set(where) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("policy", ["homeport", "least_requests"])
def test_ties_go_to_the_dice_not_to_the_first(policy: str) -> None:
    winners = {
        World("a", "b", "c", policy=policy, seed=seed).serve(World().request(prompt("x")))
        for seed in range(20)
    }
    assert winners == {"a", "b", "c"}


def test_round_robin_takes_turns() -> None:
    world = World("a", "b", "c", policy="round_robin")
    where = [world.serve(world.request(prompt(f"p{i}"))) for i in range(6)]
    assert where == ["a", "b", "c"] * 2


def test_twenty_forks_of_one_prompt_are_not_spread_by_ignorance() -> None:
    world = World("a", "b", "c", "d")
    base = [f"p{i}" for i in range(10)]
    home = placed(world.arrive(world.request(prompt(*base, part_bytes=8_000))))
    forks = [world.request(prompt(*base, f"fork{i}", part_bytes=8_000)) for i in range(20)]
    where = [placed(world.arrive(fork)) for fork in forks]
    assert where.count(home) >= 10


def test_a_full_home_is_left_and_says_so() -> None:
    world = World()
    world.join("a", running_max=1)
    home = world.serve(world.request(FIRST, session="s"))
    world.join("b", running_max=1)
    fork = world.request(prompt("system", "task", "fork", part_bytes=8_000), session="f")
    assert placed(world.arrive(fork)) == home, "its prefix is there"
    decision = decided(world.arrive(world.request(SECOND, session="s")))
    assert decision.winner == "b"
    assert decision.moved == "full"
    assert decision.dropped == {"full": 1}


def test_a_home_that_failed_is_left_and_says_so() -> None:
    world = World("a", "b")
    home = world.serve(world.request(FIRST, session="s"))
    turn = world.request(SECOND, session="s")
    assert placed(world.arrive(turn)) == home
    decision = decided(world.fail(turn))
    assert decision.winner != home
    assert decision.moved == "failed"


def test_tried_endpoints_are_not_tried_again_and_then_the_client_is_told() -> None:
    world = World("a", "b")
    request = world.request(FIRST)
    first = placed(world.arrive(request))
    second = placed(world.fail(request, Failure.CONNECT))
    assert {first, second} == {"a", "b"}
    refusal = refused(world.fail(request, Failure.CONNECT)).refusal
    assert refusal.reason is Reason.ENGINE_UNREACHABLE


def test_an_unknown_model_is_told_which_there_are() -> None:
    world = World("a")
    refusal = refused(world.arrive(world.request(FIRST, model="gpt"))).refusal
    assert refusal.reason is Reason.UNKNOWN_MODEL
    assert "`gpt`" in refusal.message
    assert "m" in refusal.message


def test_models_do_not_mix() -> None:
    world = World("a")
    world.join("b", model="n")
    assert world.serve(world.request(FIRST, model="n")) == "b"
    assert world.serve(world.request(FIRST, model="m")) == "a"


def test_an_endpoint_that_is_down_gets_nothing_until_it_is_back() -> None:
    world = World("a", "b")
    for _ in range(3):
        world.probe("a", healthy=False)
    where = {world.serve(world.request(prompt(f"p{i}"))) for i in range(6)}
    assert where == {"b"}
    for _ in range(2):
        world.probe("a", healthy=True)
    where = {world.serve(world.request(prompt(f"q{i}"))) for i in range(6)}
    assert "a" in where


def test_when_nobody_seems_to_work_all_are_used() -> None:
    world = World("a")
    for _ in range(3):
        world.probe("a", healthy=False)
    decision = decided(world.arrive(world.request(FIRST)))
    assert decision.winner == "a"
    assert decision.is_last_resort


def test_a_busy_answer_is_no_mark_against_an_endpoint() -> None:
    world = World("a", "b")
    for i in range(4):
        request = world.request(prompt(f"p{i}"))
        world.arrive(request)
        world.fail(request, Failure.BUSY)
        world.end(request)
    assert all(world.router.health.is_up(slot) for slot in (0, 1))


def test_an_engine_that_comes_back_has_an_empty_shadow() -> None:
    world = World("a")
    world.serve(world.request(FIRST, session="s"))
    for _ in range(3):
        world.probe("a", healthy=False)
    for _ in range(2):
        world.probe("a", healthy=True)
    decision = decided(world.arrive(world.request(SECOND, session="s")))
    assert decision.predicted_cached_tokens == 0
    assert decision.home is None


def test_a_lost_cache_is_noticed_by_what_the_engine_reports() -> None:
    world = World("a", "b")
    home = world.serve(world.request(FIRST, session="s"), cached=0)
    other = world.request(prompt("other", part_bytes=8_000), session="o")
    turn = world.request(SECOND, session="s")
    assert decided(world.arrive(turn)).predicted_cached_tokens > 0
    world.first_byte(turn)
    world.end(turn, cached=0)
    slot = world.router.fleet.slots[decided(world.arrive(other)).winner]
    home_slot = next(s for e, s in world.router.fleet.slots.items() if e == home)
    blocks = world.router.index.blocks(home_slot)
    assert blocks <= len(SECOND.blocks) + len(other.prompt.blocks) + 1
    assert slot in (0, 1)


def test_an_engine_that_never_reports_a_hit_loses_trust() -> None:
    world = World("a")
    parts = ["p0"]
    world.serve(world.request(prompt(*parts), session="s"), cached=0)
    for turn in range(1, 12):
        parts += [f"p{turn}"]
        world.serve(world.request(prompt(*parts), session="s"), cached=0)
    assert world.router.rates.trust[0] < 0.6


def test_the_shadow_is_bounded_by_the_engines_cache() -> None:
    world = World("a")
    world.sample("a", kv_tokens=10_000, block_tokens=16)
    for i in range(30):
        world.serve(world.request(prompt(f"p{i}", part_bytes=8_192)))
    assert world.router.index.held_bytes[0] <= 10_000 * 4.1


def test_what_the_engine_rounds_down_is_rounded_down() -> None:
    world = World("a")
    world.sample("a", kv_tokens=100_000, block_tokens=64)
    world.serve(world.request(FIRST, session="s"), cached=0)
    decision = decided(world.arrive(world.request(SECOND, session="s")))
    assert decision.predicted_cached_tokens % 64 == 0


def test_a_decision_tells_what_each_term_gave() -> None:
    world = World("a", "b", "c")
    decision = decided(world.arrive(world.request(FIRST)))
    assert len(decision.considered) == 3
    for row in decision.considered:
        assert sum(row.scores) == pytest.approx(row.cost_s)  # pyright: ignore
        assert len(row.scores) == len(decision.terms)
    costs = [row.cost_s for row in decision.considered]
    assert costs == sorted(costs)


def test_another_policy_holds_from_the_next_request_on() -> None:
    world = World("a", "b", "c")
    world.serve(world.request(FIRST))
    world.feed(ConfigChanged(Settings(policy="round_robin")))
    where = [decided(world.arrive(world.request(FIRST))) for _ in range(3)]
    assert {decision.policy for decision in where} == {"round_robin"}
    assert {decision.winner for decision in where} == {"a", "b", "c"}


def test_a_shared_system_prompt_is_found_by_another_session() -> None:
    world = World("a", "b", "c")
    home = world.serve(world.request(prompt("system", "one", part_bytes=16_000)))
    decision = decided(world.arrive(world.request(prompt("system", "two", part_bytes=16_000))))
    assert decision.winner == home
    assert decision.home is None
    assert 3_000 < decision.predicted_cached_tokens <= 4_000


def test_the_least_busy_takes_what_is_cold() -> None:
    world = World("a", "b", "c")
    busy = {placed(world.arrive(world.request(prompt(f"p{i}")))) for i in range(2)}
    assert placed(world.arrive(world.request(prompt("cold")))) not in busy


def test_a_home_that_is_down_is_left_and_says_so() -> None:
    world = World("a", "b")
    home = world.serve(world.request(FIRST, session="s"))
    for _ in range(3):
        world.probe(home, healthy=False)
    decision = decided(world.arrive(world.request(SECOND, session="s")))
    assert (decision.home, decision.moved) == (home, "unhealthy")
    assert decision.winner != home


def test_nonsense_in_a_usage_report_leaves_prices_finite() -> None:
    world = World("a", "b")
    for output, factor in ((0, 1 << 20), (1 << 40, 1)):
        request = world.request(FIRST, session="s")
        world.arrive(request)
        usage = Usage(Tokens(FIRST.text_bytes // factor or 1), Tokens(output), Tokens(1 << 40))
        world.feed(RequestEnded(request.id, Outcome.ANSWERED, usage))
        decision = decided(world.arrive(world.request(prompt("x", part_bytes=300))))
        assert decision.prompt_tokens >= 1
        assert decision.predicted_cached_tokens >= 0
        assert all(isfinite(row.cost_s) for row in decision.considered)
