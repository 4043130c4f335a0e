"""Each in turn, whatever it does."""

from collections.abc import Sequence

from homeport.core.policy import Situation


class RoundRobin:
    name = "round_robin"
    terms = ("places_to_wait",)

    def price(self, situation: Situation) -> list[float]:
        count = len(situation.slots)
        return [float((index - situation.turn) % count) for index in range(count)]

    def terms_of(self, situation: Situation, chosen: Sequence[int]) -> list[tuple[float, ...]]:
        costs = self.price(situation)
        return [(costs[index],) for index in chosen]
