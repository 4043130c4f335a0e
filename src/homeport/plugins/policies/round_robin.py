"""Each in turn, whatever it does."""

from homeport.core.policy import Priced, Situation, priced_by_one_term


class RoundRobin:
    name = "round_robin"
    terms = ("places_to_wait",)

    def price(self, situation: Situation) -> Priced:
        count = len(situation.slots)
        costs = [float((index - situation.turn) % count) for index in range(count)]
        return priced_by_one_term(costs)
