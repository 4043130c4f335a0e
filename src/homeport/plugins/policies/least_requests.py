"""Fewest requests first, whatever they are."""

from collections.abc import Sequence

from homeport.core.policy import Situation


class LeastRequests:
    name = "least_requests"

    def costs(self, situation: Situation) -> list[float]:
        running = situation.load.running
        return [float(running[slot]) for slot in situation.slots]

    def scores(self, situation: Situation, chosen: Sequence[int]) -> list[dict[str, float]]:
        running, slots = situation.load.running, situation.slots
        return [{"running": float(running[slots[index]])} for index in chosen]
