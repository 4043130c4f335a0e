"""Which endpoints are believed to work: from probes, and from what requests met there.

An endpoint is down after `failures_max` failures in a row, whoever saw them, and up again after
`recoveries_min` good probes in a row. A request's success clears the count of an endpoint that is
up; it does not raise one that is down, for that is what probes are for.
"""

from dataclasses import dataclass, field

from homeport.core.endpoint import Slot


@dataclass(slots=True)
class Health:
    failures_max: int = 3
    recoveries_min: int = 2
    up: int = 0
    """Mask of the endpoints that are up."""
    failures: dict[Slot, int] = field(default_factory=dict[Slot, int])
    recoveries: dict[Slot, int] = field(default_factory=dict[Slot, int])

    def join(self, slot: Slot) -> None:
        self.up |= 1 << slot
        self.failures[slot] = self.recoveries[slot] = 0

    def leave(self, slot: Slot) -> None:
        self.up &= ~(1 << slot)
        del self.failures[slot], self.recoveries[slot]

    def is_up(self, slot: Slot) -> bool:
        return bool(self.up >> slot & 1)

    def served(self, slot: Slot) -> None:
        """A request was answered there."""
        if self.is_up(slot):
            self.failures[slot] = 0

    def failed(self, slot: Slot) -> bool:
        """A request or a probe failed there. True when this brought the endpoint down."""
        self.failures[slot] += 1
        self.recoveries[slot] = 0
        if not self.is_up(slot) or self.failures[slot] < self.failures_max:
            return False
        self.up &= ~(1 << slot)
        return True

    def probed(self, slot: Slot) -> bool:
        """A probe went well. True when this brought the endpoint up again."""
        if self.is_up(slot):
            self.failures[slot] = 0
            return False
        self.recoveries[slot] += 1
        if self.recoveries[slot] < self.recoveries_min:
            return False
        self.up |= 1 << slot
        self.failures[slot] = self.recoveries[slot] = 0
        return True

    def state(self) -> tuple[object, ...]:
        return (hex(self.up), self.failures, self.recoveries)
