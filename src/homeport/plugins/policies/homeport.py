"""The default policy: the least cost in seconds, with recompute priced far above its time.

Form and constants come from a simulation study on agent traces. In words: stay where your context
is unless leaving is worth about 30 times the recompute that it causes, for a long prefill stands
in front of everybody else; and when leaving, go where the contexts of live sessions leave room.

    cost = q * wait + T(miss at the endpoint's own rate) + one step      own time to first token
         + M * T(miss at the fleet's rate)                               what the work costs others
         + T(typical) * (committed - mean committed) / capacity          only away from home
         + T(typical) * (crowding - mean crowding)                       only away from home
         + 60 * T(typical) * max(0, use of the cache - 0.85)             an over-committed cache

q is 0.5 with a home and 1 without, M is 32 with a home and 8 for a first turn. Prices use one
rate for the whole fleet, so that wrong beliefs about one endpoint do little harm; own time uses
the mean of both.
"""

from collections.abc import Sequence

from homeport.core.policy import Situation
from homeport.core.rates import prefill_s

QUEUE_SHARE_HOME = 0.5
RECOMPUTE_PRICE_HOME = 32.0
RECOMPUTE_PRICE_FIRST = 8.0
OVERCOMMIT_PRICE = 60.0
OVERCOMMIT_FROM = 0.85


class Prices:
    """What is the same for all endpoints of one situation."""

    __slots__ = ("crowd", "mean_committed", "mean_live", "queue", "recompute", "typical_s")

    def __init__(self, situation: Situation) -> None:
        load, slots = situation.load, situation.slots
        has_home = situation.home is not None
        self.queue = QUEUE_SHARE_HOME if has_home else 1.0
        self.recompute = RECOMPUTE_PRICE_HOME if has_home else RECOMPUTE_PRICE_FIRST
        typical = situation.typical_tokens
        self.typical_s = prefill_s(typical, typical, situation.fleet_rate)
        committed, live = load.committed_tokens, load.live_sessions
        self.mean_committed = sum([committed[slot] for slot in slots]) / len(slots)
        self.mean_live = sum([live[slot] for slot in slots]) / len(slots)
        self.crowd = self.mean_live + 1.0


class Homeport:
    name = "homeport"

    def costs(self, situation: Situation) -> list[float]:
        prices = Prices(situation)
        load, home, total = situation.load, situation.home, situation.prompt_tokens
        rate, fleet_rate = load.prefill_rate, situation.fleet_rate
        committed, capacity, live = load.committed_tokens, load.kv_tokens, load.live_sessions
        queue, recompute, typical_s = prices.queue, prices.recompute, prices.typical_s
        mean_committed, mean_live, crowd = prices.mean_committed, prices.mean_live, prices.crowd
        costs: list[float] = []
        for slot, hit, wait in zip(situation.slots, situation.hits, situation.waits, strict=True):
            miss = total - hit
            at_fleet = prefill_s(miss, total, fleet_rate)
            own = at_fleet * fleet_rate / (0.5 * (fleet_rate + rate[slot]))
            cost = queue * wait + own + load.step_s[slot] + recompute * at_fleet
            used = committed[slot] + total
            if slot == home:
                used -= situation.own_tokens
            else:
                cost += typical_s * (
                    (committed[slot] - mean_committed) / capacity[slot]
                    + (live[slot] - mean_live) / crowd
                )
            over = used / capacity[slot] - OVERCOMMIT_FROM
            costs.append(cost + OVERCOMMIT_PRICE * typical_s * over if over > 0.0 else cost)
        return costs

    def scores(self, situation: Situation, chosen: Sequence[int]) -> list[dict[str, float]]:
        prices = Prices(situation)
        return [terms(situation, prices, index) for index in chosen]


def terms(situation: Situation, prices: Prices, index: int) -> dict[str, float]:
    """The cost of one endpoint, term by term."""
    load, slot, total = situation.load, situation.slots[index], situation.prompt_tokens
    fleet_rate = situation.fleet_rate
    at_fleet = prefill_s(total - situation.hits[index], total, fleet_rate)
    is_home = slot == situation.home
    used = load.committed_tokens[slot] + total - (situation.own_tokens if is_home else 0)
    away = 0.0 if is_home else prices.typical_s
    capacity = load.kv_tokens[slot]
    over = max(0.0, used / capacity - OVERCOMMIT_FROM)
    return {
        "wait": prices.queue * situation.waits[index],
        "prefill": at_fleet * fleet_rate / (0.5 * (fleet_rate + load.prefill_rate[slot])),
        "step": load.step_s[slot],
        "recompute": prices.recompute * at_fleet,
        "committed": away * (load.committed_tokens[slot] - prices.mean_committed) / capacity,
        "crowding": away * (load.live_sessions[slot] - prices.mean_live) / prices.crowd,
        "overcommit": OVERCOMMIT_PRICE * prices.typical_s * over,
    }
