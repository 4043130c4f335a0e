"""Each in turn, whatever it does."""

from homeport.core.policy import Price, Situation


class RoundRobin:
    name = "round_robin"
    terms = ("places_to_wait",)

    def price(self, situation: Situation) -> list[Price]:
        count = len(situation.slots)
        return [
            (cost := float((index - situation.turn) % count), (cost,)) for index in range(count)
        ]
