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
from homeport.core.rates import ATTENTION_TOKENS, prefill_s

QUEUE_SHARE_HOME = 0.5
RECOMPUTE_PRICE_HOME = 32.0
RECOMPUTE_PRICE_FIRST = 8.0
OVERCOMMIT_PRICE = 60.0
OVERCOMMIT_FROM = 0.85


class Prices:
    """What is the same for all endpoints of one situation."""

    __slots__ = (
        *("away_live", "linear", "mean_committed", "mean_live"),
        *("queue", "recompute", "square", "typical_s"),
    )

    def __init__(self, situation: Situation) -> None:
        load, slots = situation.load, situation.slots
        total, rate = situation.prompt_tokens, situation.fleet_rate
        is_first = situation.home is None
        self.queue = 1.0 if is_first else QUEUE_SHARE_HOME
        self.recompute = RECOMPUTE_PRICE_FIRST if is_first else RECOMPUTE_PRICE_HOME
        # prefill_s(miss, total, rate) is miss * (linear - miss * square)
        self.linear = (1.0 + total / ATTENTION_TOKENS) / rate
        self.square = 0.5 / (ATTENTION_TOKENS * rate)
        self.typical_s = prefill_s(situation.typical_tokens, situation.typical_tokens, rate)
        committed, live = load.committed_tokens, load.live_sessions
        self.mean_committed = sum([committed[slot] for slot in slots]) / len(slots)
        self.mean_live = sum([live[slot] for slot in slots]) / len(slots)
        self.away_live = self.typical_s / (self.mean_live + 1.0)


class Homeport:
    name = "homeport"
    terms = ("wait", "prefill", "step", "recompute", "committed", "crowding", "overcommit")

    def price(self, situation: Situation) -> list[float]:
        """The sums of `terms_of`, in one loop over all endpoints: the hot one."""
        p = Prices(situation)
        load, home, total = situation.load, situation.home, situation.prompt_tokens
        rate, step, fleet_rate = load.prefill_rate, load.step_s, situation.fleet_rate
        committed, capacity, live = load.committed_tokens, load.kv_tokens, load.live_sessions
        queue, recompute, linear, square = p.queue, p.recompute, p.linear, p.square
        typical_s, away_live, twice = p.typical_s, p.away_live, fleet_rate + fleet_rate
        mean_committed, mean_live = p.mean_committed, p.mean_live
        costs: list[float] = []
        for slot, hit, wait in zip(situation.slots, situation.hits, situation.waits, strict=True):
            miss = total - hit
            at_fleet = miss * (linear - miss * square)
            room, used = capacity[slot], committed[slot]
            cost = queue * wait + at_fleet * (twice / (fleet_rate + rate[slot]) + recompute)
            if slot == home:
                cost += step[slot]
                over = (used + total - situation.own_tokens) / room - OVERCOMMIT_FROM
            else:
                cost += (
                    step[slot]
                    + typical_s * (used - mean_committed) / room
                    + away_live * (live[slot] - mean_live)
                )
                over = (used + total) / room - OVERCOMMIT_FROM
            costs.append(cost + OVERCOMMIT_PRICE * typical_s * over if over > 0.0 else cost)
        return costs

    def terms_of(self, situation: Situation, chosen: Sequence[int]) -> list[tuple[float, ...]]:
        prices = Prices(situation)
        return [terms(situation, prices, index) for index in chosen]


def terms(situation: Situation, prices: Prices, index: int) -> tuple[float, ...]:
    """The cost of one endpoint in the order of `Homeport.terms`."""
    load, slot, total = situation.load, situation.slots[index], situation.prompt_tokens
    fleet_rate, capacity = situation.fleet_rate, load.kv_tokens[slot]
    miss = total - situation.hits[index]
    at_fleet = miss * (prices.linear - miss * prices.square)
    is_home = slot == situation.home
    used = load.committed_tokens[slot]
    own = situation.own_tokens if is_home else 0
    over = max(0.0, (used + total - own) / capacity - OVERCOMMIT_FROM)
    return (
        prices.queue * situation.waits[index],
        at_fleet * 2.0 * fleet_rate / (fleet_rate + load.prefill_rate[slot]),
        load.step_s[slot],
        prices.recompute * at_fleet,
        0.0 if is_home else prices.typical_s * (used - prices.mean_committed) / capacity,
        0.0 if is_home else prices.away_live * (load.live_sessions[slot] - prices.mean_live),
        OVERCOMMIT_PRICE * prices.typical_s * over,
    )
