"""Names and units. All instants and durations in the core are whole microseconds."""

from typing import NewType

RequestId = NewType("RequestId", str)
EndpointId = NewType("EndpointId", str)
"""The endpoint's base URL: stable over restarts of the engine behind it."""
TenantName = NewType("TenantName", str)
ModelName = NewType("ModelName", str)
"""What clients ask for."""
SessionId = NewType("SessionId", str)
BlockHash = NewType("BlockHash", int)
"""64-bit chain value of a prompt block: it stands for the block and all before it."""

Instant = NewType("Instant", int)
"""Microseconds on a clock that never goes back; its zero is not defined."""
Micros = NewType("Micros", int)
"""A duration in microseconds."""
Tokens = NewType("Tokens", int)
Bytes = NewType("Bytes", int)

MICROS_PER_SECOND = 1_000_000


def seconds(duration: int) -> float:
    """Microseconds to seconds, for people and formulas."""
    return duration / MICROS_PER_SECOND


def micros(duration_s: float) -> Micros:
    """Seconds to whole microseconds."""
    return Micros(round(duration_s * MICROS_PER_SECOND))
