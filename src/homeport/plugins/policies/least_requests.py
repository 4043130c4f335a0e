"""Fewest requests first, whatever they are."""

from homeport.core.policy import Priced, Situation, priced_by_one_term


class LeastRequests:
    name = "least_requests"
    terms = ("running",)

    def price(self, situation: Situation) -> Priced:
        running = situation.load.running
        costs = [float(running[slot]) for slot in situation.slots]
        return priced_by_one_term(costs)
