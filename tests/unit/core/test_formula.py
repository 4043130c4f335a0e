"""Small pure functions of the core, by hand."""

from collections import Counter

import pytest

from homeport.core.dice import Dice
from homeport.core.endpoint import slots_of
from homeport.core.event import Failure
from homeport.core.exchange import refusal_of
from homeport.core.ids import micros, seconds
from homeport.core.prefix import BLOCK_BYTES, BLOCK_ENDS, BLOCKS_MAX
from homeport.core.rates import ModelRates, Rates, prefill_s
from homeport.core.schedule import cheapest


def test_blocks_begin_small_and_grow_with_the_offset() -> None:
    assert BLOCK_ENDS[:2] == (256, 512)
    assert BLOCK_ENDS[63] == 64 * 256
    assert BLOCK_ENDS[64] == 64 * 256 + 512
    assert len(BLOCK_ENDS) == len(BLOCK_BYTES) == BLOCKS_MAX
    for end, size in zip(BLOCK_ENDS[64:], BLOCK_BYTES[64:], strict=True):
        assert (end - size) / 64 <= size <= (end - size) / 32


def test_a_megabyte_is_a_few_hundred_blocks() -> None:
    assert sum(end <= 1 << 20 for end in BLOCK_ENDS) == 256


def test_prefill_of_a_short_prompt_is_its_tokens_over_the_rate() -> None:
    assert prefill_s(1, 1, 1_000.0) == pytest.approx(0.001, rel=1e-5)  # pyright: ignore


def test_late_tokens_are_dearer() -> None:
    assert prefill_s(1_000, 250_000, 1_000.0) == pytest.approx(1.998)  # pyright: ignore
    whole = prefill_s(8_000, 8_000, 1_000.0)
    parts = prefill_s(5_000, 5_000, 1_000.0) + prefill_s(3_000, 8_000, 1_000.0)
    assert parts == pytest.approx(whole), "the sum does not depend on the cut"  # pyright: ignore


def test_masks_as_slots() -> None:
    assert slots_of(0) == ()
    assert slots_of(0b1011 | 1 << 100) == (0, 1, 3, 100)


def test_dice_are_fair_and_repeat() -> None:
    thrown = Counter(Dice(7).below(4) for _ in range(3))
    assert len(thrown) == 1
    dice = Dice(7)
    counts = Counter(dice.below(4) for _ in range(4_000))
    assert all(900 < counts[side] < 1_100 for side in range(4))


def test_the_first_throw_is_splitmix64s() -> None:
    assert Dice(0).below(1 << 64) == 0xE220A8397B1DCDAF


def test_the_cheapest_needs_no_dice() -> None:
    dice = Dice(1)
    assert cheapest([3.0, 1.0, 2.0], dice) == 1
    assert dice.state == 1


def test_equal_costs_are_settled_by_dice() -> None:
    dice = Dice(1)
    counts = Counter(cheapest([1.0, 2.0, 1.0, 1.0], dice) for _ in range(3_000))
    assert counts[1] == 0
    assert all(900 < counts[place] < 1_100 for place in (0, 2, 3))


def test_microseconds_and_seconds() -> None:
    assert micros(1.5) == 1_500_000
    assert seconds(250_000) == 0.25


@pytest.mark.parametrize("failure", list(Failure))
def test_each_failure_can_be_told(failure: Failure) -> None:
    assert refusal_of(failure).message.endswith(".")


def test_text_is_learned_quickly_at_first_and_slowly_later() -> None:
    rates = ModelRates()
    rates.learn_text(3_000, 1_000)
    assert rates.bytes_per_token == 3.0
    for _ in range(200):
        rates.learn_text(3_000, 1_000)
    rates.learn_text(8_000, 1_000)
    assert rates.bytes_per_token == pytest.approx(3.1)  # pyright: ignore


@pytest.mark.parametrize(("text_bytes", "prompt_tokens"), [(0, 10), (10, 0), (10, -1)])
def test_nothing_is_learned_of_nothing(text_bytes: int, prompt_tokens: int) -> None:
    rates = ModelRates()
    rates.learn_text(text_bytes, prompt_tokens)
    assert rates == ModelRates()


def test_trust_falls_where_predictions_fail_and_small_ones_weigh_little() -> None:
    rates = Rates()
    rates.grow()
    rates.learn_cached(0, 2_000, 0, is_sure=False)
    assert rates.trust == [1.0]
    rates.learn_cached(0, 16, 0, is_sure=True)
    assert rates.trust[0] > 0.99
    rates.learn_cached(0, 2_000, 0, is_sure=True)
    assert 0.89 < rates.trust[0] < 0.91
    rates.learn_cached(0, 2_000, 9_000, is_sure=True)
    assert rates.trust[0] < 1.0
    assert (rates.predicted_tokens, rates.reported_tokens) == ([6_016], [9_000])
