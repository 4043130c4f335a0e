"""The books: what each endpoint was charged for, from dispatch to the end of the leg.

A charge is opened when a request is dispatched, and settled exactly once: by the router when the
leg ends, however it ends. No decision waits for a scrape; what an engine's metrics show beyond
our own requests is kept apart, as the work of others.
"""

from dataclasses import dataclass, field

from msgspec import Struct

from homeport.core.endpoint import Slot
from homeport.core.ids import MICROS_PER_SECOND, Instant, RequestId
from homeport.core.rates import prefill_s

PREFILL_DONE_SHARE_MAX = 0.95
"""A running prefill that overstays its time still counts for the rest of this share."""


class Prior(Struct, frozen=True, gc=False):
    """The turn before, answered at the same endpoint: what the hit surely rests on."""

    prompt_tokens: int
    output_tokens: int


class Charge(Struct, gc=False):
    """What one leg holds of an endpoint."""

    slot: Slot
    prompt_tokens: int
    hit_tokens: int
    prefill_us: int
    dispatched_at: Instant
    prior: Prior | None = None
    prefill_began_at: Instant | None = None
    first_byte_at: Instant | None = None


@dataclass(slots=True)
class Ledger:
    """Columns by slot, and the open charges."""

    running: list[int] = field(default_factory=list[int])
    """Own requests and those of others."""
    own: list[int] = field(default_factory=list[int])
    foreign: list[int] = field(default_factory=list[int])
    prefill_us: list[int] = field(default_factory=list[int])
    """Predicted prefill of requests without a first byte yet."""
    prefilling: list[dict[RequestId, Charge]] = field(default_factory=list[dict[RequestId, Charge]])
    """The same requests, in order of dispatch: the first is the one being prefilled."""
    charges: dict[RequestId, Charge] = field(default_factory=dict[RequestId, Charge])

    def grow(self) -> None:
        self.running.append(0)
        self.own.append(0)
        self.foreign.append(0)
        self.prefill_us.append(0)
        self.prefilling.append({})

    def join(self, slot: Slot) -> None:
        assert not self.own[slot], f"slot {slot} still has requests of the endpoint before"
        self.running[slot] = self.foreign[slot] = 0

    def charge(self, request_id: RequestId, charge: Charge) -> None:
        assert request_id not in self.charges, f"{request_id} is charged already"
        slot = charge.slot
        self.charges[request_id] = charge
        self.own[slot] += 1
        self.running[slot] += 1
        if not self.prefilling[slot]:
            charge.prefill_began_at = charge.dispatched_at
        self.prefilling[slot][request_id] = charge
        self.prefill_us[slot] += charge.prefill_us

    def first_byte(self, request_id: RequestId, now: Instant) -> Charge:
        """The prefill is over; the next one there begins."""
        charge = self.charges[request_id]
        if charge.first_byte_at is None:
            charge.first_byte_at = now
            self.end_prefill(request_id, charge, now)
        return charge

    def settle(self, request_id: RequestId, now: Instant) -> Charge:
        """The leg is over. Each charge is settled exactly once."""
        charge = self.charges.pop(request_id)
        if charge.first_byte_at is None:
            self.end_prefill(request_id, charge, now)
        self.own[charge.slot] -= 1
        self.running[charge.slot] -= 1
        return charge

    def end_prefill(self, request_id: RequestId, charge: Charge, now: Instant) -> None:
        waiting = self.prefilling[charge.slot]
        del waiting[request_id]
        self.prefill_us[charge.slot] -= charge.prefill_us
        for following in waiting.values():
            if following.prefill_began_at is None:
                following.prefill_began_at = now
            break

    def waits_s(self, slots: tuple[Slot, ...], now: Instant) -> list[float]:
        """Seconds of prefill before a new request, less what the running one has done."""
        ahead = self.prefill_us
        return [self.wait_s(slot, now) if ahead[slot] else 0.0 for slot in slots]

    def wait_s(self, slot: Slot, now: Instant) -> float:
        head = next(iter(self.prefilling[slot].values()))
        done = 0 if head.prefill_began_at is None else now - head.prefill_began_at
        done_max = head.prefill_us * PREFILL_DONE_SHARE_MAX
        return (self.prefill_us[slot] - min(done, done_max)) / MICROS_PER_SECOND

    def sampled(self, slot: Slot, running: int) -> None:
        """The engine says that it holds so many: what is not ours is somebody else's."""
        self.foreign[slot] = max(0, running - self.own[slot])
        self.running[slot] = self.own[slot] + self.foreign[slot]

    def forget_foreign(self, slot: Slot) -> None:
        """The engine tells no more: an old count would hold its room for ever."""
        self.foreign[slot] = 0
        self.running[slot] = self.own[slot]

    def check(self) -> None:
        """The invariants, for tests and simulation."""
        for slot in range(len(self.own)):
            here = [c for c in self.charges.values() if c.slot == slot]
            assert self.own[slot] == len(here), f"own of slot {slot}"
            assert self.running[slot] == self.own[slot] + self.foreign[slot], f"slot {slot}"
            waiting = [c for c in here if c.first_byte_at is None]
            assert self.prefill_us[slot] == sum(c.prefill_us for c in waiting), f"slot {slot}"
            assert len(self.prefilling[slot]) == len(waiting), f"slot {slot}"

    def state(self) -> tuple[object, ...]:
        charges = [
            (i, c.slot, c.prompt_tokens, c.hit_tokens, c.prefill_us, c.dispatched_at)
            for i, c in self.charges.items()
        ]
        return (self.own, self.foreign, self.prefill_us, charges)


def prefill_micros(new: int, prompt: int, rate: float) -> int:
    """Predicted prefill, in whole microseconds."""
    return int(prefill_s(new, prompt, rate) * MICROS_PER_SECOND)
