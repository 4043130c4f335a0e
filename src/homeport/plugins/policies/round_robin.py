"""Each in turn, whatever it does."""

from homeport.core.policy import Situation


class RoundRobin:
    name = "round_robin"

    def costs(self, situation: Situation) -> list[float]:
        count = len(situation.slots)
        return [float((index - situation.turn) % count) for index in range(count)]

    def scores(self, situation: Situation, index: int) -> dict[str, float]:
        return {"places_to_wait": float((index - situation.turn) % len(situation.slots))}
