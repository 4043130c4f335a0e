"""Who waits: requests that no endpoint had room for, first come first served, bounded.

There is one queue for each model, so that a model that is full never blocks another. The bounds, by
count and by bytes, are of all queues together; a request over them is refused at once.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from msgspec import Struct

from homeport.core.ids import Instant, ModelName, RequestId


class Waiting(Struct, gc=False):
    """One queued request."""

    request_id: RequestId
    model: ModelName
    body_bytes: int
    expires_at: Instant


@dataclass(slots=True)
class Flow:
    queued_max: int
    queued_bytes_max: int
    queues: dict[ModelName, OrderedDict[RequestId, Waiting]] = field(
        default_factory=dict[ModelName, OrderedDict[RequestId, Waiting]]
    )
    queued: int = 0
    queued_bytes: int = 0

    def has_room(self, body_bytes: int) -> bool:
        return self.queued < self.queued_max and (
            self.queued_bytes + body_bytes <= self.queued_bytes_max
        )

    def enqueue(self, waiting: Waiting, is_first: bool) -> None:
        """At the end; or at the front, for one that was running already and lost its endpoint."""
        queue = self.queues.setdefault(waiting.model, OrderedDict())
        assert waiting.request_id not in queue, f"{waiting.request_id} is queued already"
        queue[waiting.request_id] = waiting
        if is_first:
            queue.move_to_end(waiting.request_id, last=False)
        self.queued += 1
        self.queued_bytes += waiting.body_bytes

    def head(self, model: ModelName) -> Waiting | None:
        queue = self.queues.get(model)
        return next(iter(queue.values())) if queue else None

    def waiting(self, model: ModelName) -> list[Waiting]:
        """All who wait for a model, in their order."""
        queue = self.queues.get(model)
        return list(queue.values()) if queue else []

    def remove(self, model: ModelName, request_id: RequestId) -> bool:
        """Take it out, wherever it stands. False when it was not waiting."""
        queue = self.queues.get(model)
        waiting = queue.pop(request_id, None) if queue else None
        if waiting is None:
            return False
        self.queued -= 1
        self.queued_bytes -= waiting.body_bytes
        return True

    def expired(self, now: Instant) -> list[Waiting]:
        """Those who waited too long. Each queue is in order of expiry but for returned ones."""
        found: list[Waiting] = []
        for queue in self.queues.values():
            for waiting in queue.values():
                if waiting.expires_at > now:
                    break
                found.append(waiting)
        return found

    def next_expiry(self) -> Instant | None:
        """When `expired` will next find somebody."""
        heads = [next(iter(queue.values())).expires_at for queue in self.queues.values() if queue]
        return min(heads) if heads else None

    def check(self) -> None:
        """The invariants, for tests and simulation."""
        waiting = [w for queue in self.queues.values() for w in queue.values()]
        assert self.queued == len(waiting), "count"
        assert self.queued_bytes == sum(w.body_bytes for w in waiting), "bytes"

    def state(self) -> list[object]:
        return [(w.request_id, w.expires_at) for q in self.queues.values() for w in q.values()]
