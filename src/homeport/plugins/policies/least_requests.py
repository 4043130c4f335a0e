"""Fewest requests first, whatever they are."""

from collections.abc import Sequence

from homeport.core.policy import Situation


class LeastRequests:
    name = "least_requests"
    terms = ("running",)

    def price(self, situation: Situation) -> list[float]:
        running = situation.load.running
        return [float(running[slot]) for slot in situation.slots]

    def terms_of(self, situation: Situation, chosen: Sequence[int]) -> list[tuple[float, ...]]:
        costs = self.price(situation)
        return [(costs[index],) for index in chosen]
