"""Fewest requests first, whatever they are."""

from homeport.core.policy import Situation


class LeastRequests:
    name = "least_requests"

    def costs(self, situation: Situation) -> list[float]:
        running = situation.load.running
        return [float(running[slot]) for slot in situation.slots]

    def scores(self, situation: Situation, index: int) -> dict[str, float]:
        return {"running": float(situation.load.running[situation.slots[index]])}
