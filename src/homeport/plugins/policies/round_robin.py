"""Each in turn, whatever it does."""

from collections.abc import Sequence

from homeport.core.policy import Situation


class RoundRobin:
    name = "round_robin"

    def costs(self, situation: Situation) -> list[float]:
        count = len(situation.slots)
        return [float((index - situation.turn) % count) for index in range(count)]

    def scores(self, situation: Situation, chosen: Sequence[int]) -> list[dict[str, float]]:
        count = len(situation.slots)
        return [{"places_to_wait": float((index - situation.turn) % count)} for index in chosen]
