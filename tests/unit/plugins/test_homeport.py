"""The default policy's terms, by hand."""

import pytest
from msgspec.structs import replace

from homeport.core.schedule import Books, View
from homeport.plugins.policies.homeport import Homeport

POLICY = Homeport()


def view(home: int | None, hits: list[int], committed: list[int] | None = None) -> View:
    """Two equal endpoints of 10,000 tokens/s and a prompt of 10,000 tokens."""
    books = Books(
        running=[0, 0],
        committed_tokens=committed or [0, 0],
        live_sessions=[1, 3],
        kv_tokens=[100_000, 100_000],
        prefill_rate=[10_000.0, 10_000.0],
        step_s=[0.02, 0.02],
    )
    return View((0, 1), hits, [0.0, 0.5], 10_000, home, 0, 2_000.0, 10_000.0, 0, books)


def terms(of: View, place: int) -> dict[str, float]:
    return dict(zip(POLICY.terms, POLICY.price(of).terms_of(place), strict=True))


def test_a_first_turn_by_hand() -> None:
    told = terms(view(None, [0, 0]), 1)
    assert told["wait"] == pytest.approx(0.5)  # pyright: ignore
    assert told["prefill"] == pytest.approx(1.02)  # pyright: ignore
    assert told["step"] == pytest.approx(0.02)  # pyright: ignore
    assert told["recompute"] == pytest.approx(8 * 1.02)  # pyright: ignore
    typical_s = 0.2 * 1.004
    assert told["crowding"] == pytest.approx(typical_s / 3)  # pyright: ignore
    assert told["committed"] == told["overcommit"] == 0.0


def test_a_turn_with_a_home_pays_more_for_recompute_and_less_for_waiting() -> None:
    told = terms(view(0, [9_000, 0]), 1)
    assert told["wait"] == pytest.approx(0.25)  # pyright: ignore
    assert told["recompute"] == pytest.approx(32 * 1.02)  # pyright: ignore


def test_at_home_neither_balance_counts() -> None:
    told = terms(view(0, [9_000, 0], committed=[50_000, 0]), 0)
    assert told["committed"] == told["crowding"] == 0.0


def test_above_the_mark_a_cache_is_dear() -> None:
    told = terms(view(None, [0, 0], committed=[85_000, 0]), 0)
    assert told["overcommit"] == pytest.approx(60 * 0.2008 * 0.1)  # pyright: ignore


def test_home_wins_unless_the_wait_is_worth_the_recompute() -> None:
    at_home = view(0, [9_000, 0])
    costs = POLICY.price(at_home).costs
    assert costs[0] < costs[1]
    queued = replace(at_home, waits=[80.0, 0.0])
    costs = POLICY.price(queued).costs
    assert costs[0] > costs[1]
