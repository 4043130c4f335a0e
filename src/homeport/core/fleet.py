"""The endpoints that are in the fleet, their slots, and the masks that filters are made of."""

from dataclasses import dataclass, field

from homeport.core.endpoint import EndpointSpec, Sample, Slot
from homeport.core.ids import EndpointId, ModelName

KV_TOKENS_PRIOR = 200_000
"""Cache of an endpoint that does not tell and is not configured."""
BLOCK_TOKENS_PRIOR = 16


@dataclass(slots=True)
class Fleet:
    """Columns by slot, masks by what a filter asks for."""

    running_max_default: int = 512
    specs: list[EndpointSpec | None] = field(default_factory=list[EndpointSpec | None])
    ids: list[EndpointId] = field(default_factory=list[EndpointId])
    """The name of each endpoint; of an empty slot it is that of the endpoint before."""
    kv_tokens: list[int] = field(default_factory=list[int])
    block_tokens: list[int] = field(default_factory=list[int])
    running_max: list[int] = field(default_factory=list[int])
    samples: list[Sample | None] = field(default_factory=list[Sample | None])
    slots: dict[EndpointId, Slot] = field(default_factory=dict[EndpointId, Slot])
    serving: dict[ModelName, int] = field(default_factory=dict[ModelName, int])
    """Mask of the endpoints of each model; a model stays known when its last endpoint leaves."""
    full: int = 0
    """Mask of the endpoints that hold as many requests as they may."""

    def join(self, spec: EndpointSpec, own: list[int]) -> tuple[Slot, bool]:
        """The slot given, and whether columns must grow for it.

        `own` counts the requests in each slot: one whose last endpoint left while some still ran is
        not given away before they have settled.
        """
        assert spec.id not in self.slots, f"{spec.id} joined twice"
        empty = (s for s, old in enumerate(self.specs) if old is None and not own[s])
        slot = next(empty, len(self.specs))
        is_new = slot == len(self.specs)
        if is_new:
            self.specs.append(None)
            self.samples.append(None)
            self.ids.append(spec.id)
            for column in (self.kv_tokens, self.block_tokens, self.running_max):
                column.append(0)
        self.specs[slot], self.ids[slot], self.samples[slot] = spec, spec.id, None
        self.slots[spec.id] = slot
        self.kv_tokens[slot] = spec.kv_tokens or KV_TOKENS_PRIOR
        self.block_tokens[slot] = BLOCK_TOKENS_PRIOR
        self.running_max[slot] = spec.running_max or self.running_max_default
        self.serving[spec.model] = self.serving.get(spec.model, 0) | 1 << slot
        return slot, is_new

    def leave(self, slot: Slot) -> None:
        spec = self.spec(slot)
        del self.slots[spec.id]
        self.serving[spec.model] &= ~(1 << slot)
        self.full &= ~(1 << slot)
        self.specs[slot] = self.samples[slot] = None

    def spec(self, slot: Slot) -> EndpointSpec:
        spec = self.specs[slot]
        assert spec is not None, f"slot {slot} is empty"
        return spec

    def sampled(self, slot: Slot, sample: Sample) -> None:
        self.samples[slot] = sample
        if sample.kv_tokens and self.spec(slot).kv_tokens is None:
            self.kv_tokens[slot] = sample.kv_tokens
        if sample.block_tokens:
            self.block_tokens[slot] = sample.block_tokens

    def set_running_max_default(self, running_max: int) -> None:
        """Holds at once wherever the endpoint's own spec does not say otherwise."""
        self.running_max_default = running_max
        for slot, spec in enumerate(self.specs):
            if spec is not None and spec.running_max is None:
                self.running_max[slot] = running_max

    def set_running(self, slot: Slot, running: int) -> None:
        if running < self.running_max[slot]:
            self.full &= ~(1 << slot)
        else:
            self.full |= 1 << slot

    def state(self) -> tuple[object, ...]:
        return (self.specs, self.kv_tokens, self.block_tokens, hex(self.full))
