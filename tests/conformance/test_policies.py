"""What every placement policy must keep, whatever it prefers."""

from copy import deepcopy
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeport.core.policy import Policy
from homeport.core.schedule import Books, View
from homeport.plugins.registry import POLICIES

NUMBERS = st.integers(0, 1_000_000)


@st.composite
def situations(draw: st.DrawFn) -> View:
    """Some of a fleet's endpoints, and a request that may have a home among all of them."""
    size = draw(st.integers(1, 12))

    def column(numbers: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(numbers, min_size=size, max_size=size))

    slots = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=size, unique=True))
    total = draw(st.integers(1, 1_000_000))
    return View(
        slots=tuple(sorted(slots)),
        hits=[draw(st.integers(0, total - 1)) for _ in slots],
        waits=[draw(NUMBERS) / 1_000 for _ in slots],
        prompt_tokens=total,
        home=draw(st.none() | st.integers(0, size - 1)),
        own_tokens=draw(NUMBERS),
        typical_tokens=float(draw(NUMBERS)),
        fleet_rate=draw(st.integers(1, 100_000)) / 1.0,
        turn=draw(NUMBERS),
        load=Books(
            running=column(st.integers(0, 500)),
            committed_tokens=column(NUMBERS),
            live_sessions=column(st.integers(0, 500)),
            kv_tokens=column(st.integers(1, 10_000_000)),
            prefill_rate=[number / 1.0 for number in column(st.integers(1, 100_000))],
            step_s=[number / 1_000 for number in column(st.integers(1, 1_000))],
        ),
    )


every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))


@every_policy
@given(situation=situations())
def test_there_is_one_finite_cost_for_each_endpoint(policy: Policy, situation: View) -> None:
    costs = policy.price(situation).costs
    assert len(costs) == len(situation.slots)
    assert all(isfinite(cost) for cost in costs)


@every_policy
@given(situation=situations())
def test_the_terms_add_up_to_the_cost(policy: Policy, situation: View) -> None:
    costs, terms_of = policy.price(situation)
    for place, cost in enumerate(costs):
        terms = terms_of(place)
        assert len(terms) == len(policy.terms)
        size = sum(map(abs, terms))
        assert abs(sum(terms) - cost) <= 1e-9 * max(1.0, size)


@every_policy
@given(situation=situations())
def test_nothing_is_changed_and_nothing_remembered(policy: Policy, situation: View) -> None:
    before = deepcopy(situation)
    assert policy.price(situation).costs == policy.price(situation).costs
    assert situation == before


@every_policy
def test_its_name_is_the_one_it_is_registered_by(policy: Policy) -> None:
    assert POLICIES[policy.name] is policy
    assert len(set(policy.terms)) == len(policy.terms)
    assert policy.name.isidentifier(), "it is a label and a value in a config"
