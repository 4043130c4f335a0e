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

from functools import partial

from msgspec import Struct

from homeport.core.policy import Priced, Situation
from homeport.core.rates import ATTENTION_TOKENS, prefill_s

QUEUE_SHARE_HOME = 0.5
RECOMPUTE_PRICE_HOME = 32.0
RECOMPUTE_PRICE_FIRST = 8.0
OVERCOMMIT_PRICE = 60.0
OVERCOMMIT_FROM = 0.85


class Prices(Struct, frozen=True, gc=False):
    """What is the same for all endpoints of one situation."""

    queue: float
    recompute: float
    linear: float
    square: float
    """`prefill_s(miss, total, rate)` is `miss * (linear - miss * square)`."""
    typical_s: float
    mean_committed: float
    mean_live: float
    away_live: float


class Homeport:
    name = "homeport"
    terms = ("wait", "prefill", "step", "recompute", "committed", "crowding", "overcommit")

    def price(self, situation: Situation) -> Priced:
        """The sums of `terms`, in one loop over all endpoints: the hot one."""
        load, slots, home = situation.load, situation.slots, situation.home
        total, own, fleet_rate = situation.prompt_tokens, situation.own_tokens, situation.fleet_rate
        rate, step, capacity = load.prefill_rate, load.step_s, load.kv_tokens
        committed, live = load.committed_tokens, load.live_sessions
        count, typical = len(slots), situation.typical_tokens
        queue = 1.0 if home is None else QUEUE_SHARE_HOME
        recompute = RECOMPUTE_PRICE_FIRST if home is None else RECOMPUTE_PRICE_HOME
        linear = (1.0 + total / ATTENTION_TOKENS) / fleet_rate
        square = 0.5 / (ATTENTION_TOKENS * fleet_rate)
        typical_s = prefill_s(typical, typical, fleet_rate)
        mean_committed = sum([committed[slot] for slot in slots]) / count
        mean_live = sum([live[slot] for slot in slots]) / count
        away_live, twice = typical_s / (mean_live + 1.0), fleet_rate + fleet_rate
        costs: list[float] = []
        for slot, hit, wait in zip(slots, situation.hits, situation.waits, strict=True):
            miss = total - hit
            at_fleet = miss * (linear - miss * square)
            room, used = capacity[slot], committed[slot]
            cost = queue * wait + at_fleet * (twice / (fleet_rate + rate[slot]) + recompute)
            if slot == home:
                cost += step[slot]
                over = (used + total - own) / room - OVERCOMMIT_FROM
            else:
                cost += (
                    step[slot]
                    + typical_s * (used - mean_committed) / room
                    + away_live * (live[slot] - mean_live)
                )
                over = (used + total) / room - OVERCOMMIT_FROM
            costs.append(cost + OVERCOMMIT_PRICE * typical_s * over if over > 0.0 else cost)
        prices = Prices(
            queue, recompute, linear, square, typical_s, mean_committed, mean_live, away_live
        )
        return Priced(costs, partial(terms, situation, prices))


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
