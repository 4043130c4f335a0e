"""Fewest requests first, whatever they are."""

from homeport.core.policy import Price, Situation


class LeastRequests:
    name = "least_requests"
    terms = ("running",)

    def price(self, situation: Situation) -> list[Price]:
        running = situation.load.running
        return [(cost := float(running[slot]), (cost,)) for slot in situation.slots]
