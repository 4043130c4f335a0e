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

from homeport.core.policy import Price, Situation
from homeport.core.rates import ATTENTION_TOKENS, prefill_s

QUEUE_SHARE_HOME = 0.5
RECOMPUTE_PRICE_HOME = 32.0
RECOMPUTE_PRICE_FIRST = 8.0
OVERCOMMIT_PRICE = 60.0
OVERCOMMIT_FROM = 0.85


class Homeport:
    name = "homeport"
    terms = ("wait", "prefill", "step", "recompute", "committed", "crowding", "overcommit")

    def price(self, situation: Situation) -> list[Price]:
        load, slots, home = situation.load, situation.slots, situation.home
        total, typical = situation.prompt_tokens, situation.typical_tokens
        queue = 1.0 if home is None else QUEUE_SHARE_HOME
        recompute_price = RECOMPUTE_PRICE_FIRST if home is None else RECOMPUTE_PRICE_HOME
        rate, fleet_rate, step = load.prefill_rate, situation.fleet_rate, load.step_s
        typical_s = prefill_s(typical, typical, fleet_rate)
        committed, capacity, live = load.committed_tokens, load.kv_tokens, load.live_sessions
        mean_committed = sum([committed[slot] for slot in slots]) / len(slots)
        mean_live = sum([live[slot] for slot in slots]) / len(slots)
        away_live = typical_s / (mean_live + 1.0)
        # prefill_s(miss, total, fleet_rate), with all that is the same for all taken out
        linear = (1.0 + total / ATTENTION_TOKENS) / fleet_rate
        square = 0.5 / (ATTENTION_TOKENS * fleet_rate)
        prices: list[Price] = []
        for slot, hit, waited in zip(slots, situation.hits, situation.waits, strict=True):
            miss = total - hit
            at_fleet = miss * (linear - miss * square)
            own = at_fleet * (fleet_rate + fleet_rate) / (fleet_rate + rate[slot])
            wait, recompute = queue * waited, recompute_price * at_fleet
            room = capacity[slot]
            if slot == home:
                commit = crowd = 0.0
                over = (committed[slot] + total - situation.own_tokens) / room - OVERCOMMIT_FROM
            else:
                commit = typical_s * (committed[slot] - mean_committed) / room
                crowd = away_live * (live[slot] - mean_live)
                over = (committed[slot] + total) / room - OVERCOMMIT_FROM
            excess = OVERCOMMIT_PRICE * typical_s * over if over > 0.0 else 0.0
            cost = wait + own + step[slot] + recompute + commit + crowd + excess
            prices.append((cost, (wait, own, step[slot], recompute, commit, crowd, excess)))
        return prices
