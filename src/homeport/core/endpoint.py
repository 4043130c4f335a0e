"""Endpoints as the core sees them: what is configured, what an engine reports, and their slots."""

from functools import lru_cache

from msgspec import Struct

from homeport.core.ids import EndpointId, ModelName, Tokens

Slot = int
"""A small number for an endpoint while it is in the fleet: index of columns, bit of masks."""


class EndpointSpec(Struct, frozen=True, gc=False):
    """What config says of an endpoint. None where the engine is asked or a default is taken."""

    id: EndpointId
    model: ModelName
    accelerator: str = "unknown"
    kv_tokens: Tokens | None = None
    running_max: int | None = None


class Sample(Struct, frozen=True, gc=False):
    """What an engine's metrics say at one moment. None where this engine does not tell."""

    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    kv_tokens: Tokens | None = None
    block_tokens: Tokens | None = None


@lru_cache(maxsize=1024)
def slots_of(mask: int) -> tuple[Slot, ...]:
    """The slots whose bits are set, lowest first. Masks change only when an endpoint changes."""
    slots: list[Slot] = []
    while mask:
        low = mask & -mask
        slots.append(low.bit_length() - 1)
        mask ^= low
    return tuple(slots)
