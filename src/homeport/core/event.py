"""All that can happen to the router. Past participles; each instance is one journal record."""

from enum import StrEnum

from msgspec import Struct

from homeport.core.endpoint import EndpointSpec, Sample
from homeport.core.ids import Bytes, EndpointId, Micros, ModelName, RequestId, TenantName
from homeport.core.refusal import Refusal
from homeport.core.request import Request, Usage


class Failure(StrEnum):
    """How an endpoint failed a request."""

    CONNECT = "connect"  # nobody accepts
    CONNECT_TIMEOUT = "connect_timeout"
    STALE = "stale"  # a kept-alive connection had been closed: nobody's fault
    RESET = "reset"
    CLOSED = "closed"  # ended before the answer was whole
    GARBAGE = "garbage"  # not HTTP
    STATUS = "status"  # answered 5xx
    BUSY = "busy"  # answered that it cannot take this now: no mark against it
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    STALLED = "stalled"  # no byte for too long in the middle of an answer


class Outcome(StrEnum):
    """How a request ended. Each request has exactly one."""

    ANSWERED = "answered"
    CLIENT_ERROR = "client_error"  # the engine answered 4xx: the client's mistake
    ENGINE_ERROR = "engine_error"  # the engine answered 5xx and nobody else could
    REFUSED = "refused"
    BROKEN = "broken"  # failed after its first byte
    CANCELLED = "cancelled"  # the client left


class Settings(Struct, frozen=True, gc=False, array_like=True):
    """What the router must know of the config. It enters as an event, so a journal is complete."""

    policy: str = "homeport"
    seed: int = 0
    queued_max: int = 5_000
    queued_bytes_max: Bytes = Bytes(1 << 30)
    wait_max: Micros = Micros(60_000_000)
    running_max: int = 512
    """Requests that one endpoint may hold, where neither it nor its spec says otherwise."""
    session_hold: Micros = Micros(300_000_000)
    failures_max: int = 3
    recoveries_min: int = 2


class ConfigChanged(Struct, frozen=True, tag=True, gc=False, array_like=True):
    settings: Settings


class EndpointJoined(Struct, frozen=True, tag=True, gc=False, array_like=True):
    spec: EndpointSpec


class EndpointLeft(Struct, frozen=True, tag=True, gc=False, array_like=True):
    """No request goes there any more; those that run there are ended by their own events."""

    endpoint: EndpointId


class EndpointProbed(Struct, frozen=True, tag=True, gc=False, array_like=True):
    endpoint: EndpointId
    healthy: bool


class EndpointSampled(Struct, frozen=True, tag=True, gc=False, array_like=True):
    endpoint: EndpointId
    sample: Sample


class RequestArrived(Struct, frozen=True, tag=True, gc=False, array_like=True):
    request: Request


class RequestRefused(Struct, frozen=True, tag=True, gc=False, array_like=True):
    """Refused before it could be understood: it changes nothing, and is remembered."""

    request_id: RequestId
    tenant: TenantName | None
    model: ModelName | None
    refusal: Refusal


class FirstByteSent(Struct, frozen=True, tag=True, gc=False, array_like=True):
    request_id: RequestId


class LegEnded(Struct, frozen=True, tag=True, gc=False, array_like=True):
    """An endpoint failed a request that has sent nothing yet: it is to be placed again."""

    request_id: RequestId
    failure: Failure


class RequestEnded(Struct, frozen=True, tag=True, gc=False, array_like=True):
    """The end of a placed or queued request; its charge is settled here and nowhere else."""

    request_id: RequestId
    outcome: Outcome
    usage: Usage | None = None
    failure: Failure | None = None
    refusal: Refusal | None = None
    """What the client was told, where the exchange itself refused or broke off."""


class TimerFired(Struct, frozen=True, tag=True, gc=False, array_like=True):
    """The instant of the latest `WakeAt` has come."""


Event = (
    ConfigChanged
    | EndpointJoined
    | EndpointLeft
    | EndpointProbed
    | EndpointSampled
    | RequestArrived
    | RequestRefused
    | FirstByteSent
    | LegEnded
    | RequestEnded
    | TimerFired
)
