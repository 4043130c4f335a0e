"""The life of one request on the byte path: `handle(event, now) -> list[Action]`.

What `core/router.py` is to the fleet, this is to a request: here, and nowhere else, is decided
whether a failure is tried elsewhere, told to the client, or breaks a stream that has begun. It
knows no bytes: the gateway executes the actions with sockets, a simulation in virtual time.

    ASKED ──Placed──> OPENING ──FirstByte──> STREAMING ──UpstreamEnded──> ENDED
      ^                  │                       │
      └── LegEnded ──────┘ UpstreamFailed        └─ UpstreamFailed: Break
"""

from enum import Enum
from typing import assert_never

from msgspec import Struct

from homeport.core.event import (
    Event,
    Failure,
    FirstByteSent,
    LegEnded,
    Outcome,
    RequestArrived,
    RequestEnded,
)
from homeport.core.ids import EndpointId, Instant, Micros
from homeport.core.refusal import Reason, Refusal
from homeport.core.request import Request, Usage


class Patience(Struct, frozen=True, gc=False):
    """How long an exchange waits for what, and how often it tries. None: for ever."""

    connect: Micros = Micros(2_000_000)
    first_byte: Micros = Micros(600_000_000)
    between_bytes: Micros = Micros(120_000_000)
    client_stall: Micros = Micros(60_000_000)
    total: Micros | None = None
    attempts_max: int = 3


class Arrived(Struct, frozen=True, gc=False):
    """The request is whole and understood."""


class Placed(Struct, frozen=True, gc=False):
    """The router says where."""

    endpoint: EndpointId


class Refused(Struct, frozen=True, gc=False):
    """The router says no, and has forgotten the request."""

    refusal: Refusal


class FirstByte(Struct, frozen=True, gc=False):
    """The first of an answer that may be sent on is here."""


class UpstreamFailed(Struct, frozen=True, gc=False):
    """The leg is over without a whole answer. `is_held`: the endpoint's own error answer is
    kept."""

    failure: Failure
    is_held: bool = False


class UpstreamEnded(Struct, frozen=True, gc=False):
    """The whole answer is here, and sent on or about to be."""

    outcome: Outcome
    usage: Usage | None


class ClientLeft(Struct, frozen=True, gc=False):
    """The client is gone, wherever the request is."""


class Watched(Struct, frozen=True, gc=False):
    """A look at the clock: when the endpoint last sent something, and since when the client does
    not read (None: it reads)."""

    is_connected: bool
    last_byte_at: Instant
    stalled_since: Instant | None


ExchangeEvent = (
    Arrived | Placed | Refused | FirstByte | UpstreamFailed | UpstreamEnded | ClientLeft | Watched
)


class Tell(Struct, frozen=True, gc=False):
    """Feed this to the router."""

    event: Event


class Open(Struct, frozen=True, gc=False):
    """Send the request to this endpoint; `is_fresh`: not over a kept-alive connection."""

    endpoint: EndpointId
    is_fresh: bool = False


class Forward(Struct, frozen=True, gc=False):
    """From now on bytes go to the client as they come."""


class Deliver(Struct, frozen=True, gc=False):
    """Send the endpoint's own error answer that was kept."""


class Fail(Struct, frozen=True, gc=False):
    """Nothing was sent yet: answer with this refusal."""

    refusal: Refusal


class Break(Struct, frozen=True, gc=False):
    """Something was sent already: end the answer so that nobody takes it for whole."""

    refusal: Refusal


class Abort(Struct, frozen=True, gc=False):
    """Close the connection to the endpoint, so that it stops working for nobody."""


class Drop(Struct, frozen=True, gc=False):
    """Close the connection to the client, which does not read."""


Action = Tell | Open | Forward | Deliver | Fail | Break | Abort | Drop


class State(Enum):
    ASKED = "asked"
    OPENING = "opening"
    STREAMING = "streaming"
    ENDED = "ended"


class Exchange:
    """One request, from arrival to its single end."""

    __slots__ = (
        "arrived_at",
        "attempts",
        "endpoint",
        "has_stale",
        "is_held",
        "opened_at",
        "patience",
        "request",
        "state",
    )

    def __init__(self, request: Request, patience: Patience) -> None:
        self.request = request
        self.patience = patience
        self.state = State.ASKED
        self.attempts = 0
        self.endpoint: EndpointId | None = None
        self.arrived_at = Instant(0)
        self.opened_at = Instant(0)
        self.is_held = False
        self.has_stale = False

    def handle(self, event: ExchangeEvent, now: Instant) -> list[Action]:
        if self.state is State.ENDED:
            return []  # sockets report late; the fate is sealed
        match event:
            case Arrived():
                self.arrived_at = now
                return [Tell(RequestArrived(self.request))]
            case Placed(endpoint):
                return self.open(endpoint, now)
            case FirstByte():
                self.state = State.STREAMING
                return [Tell(FirstByteSent(self.request.id)), Forward()]
            case UpstreamEnded(outcome, usage):
                # A document may be whole before any of it was sent on.
                is_unsent = self.state is State.OPENING
                end = self.end(outcome, usage)
                return [Forward(), end] if is_unsent else [end]
            case UpstreamFailed(failure, is_held):
                return self.failed(failure, is_held, now)
            case Refused(refusal):
                self.state = State.ENDED
                return [Deliver() if self.is_held else Fail(refusal)]
            case ClientLeft():
                return [Abort(), self.end(Outcome.CANCELLED)]
            case Watched():
                return self.watched(event, now)
            case _:
                assert_never(event)

    def open(self, endpoint: EndpointId, now: Instant, *, is_fresh: bool = False) -> list[Action]:
        self.state = State.OPENING
        self.endpoint = endpoint
        self.opened_at = now
        self.has_stale = is_fresh
        return [Open(endpoint, is_fresh)]

    def failed(self, failure: Failure, is_held: bool, now: Instant) -> list[Action]:
        """Before the first byte another endpoint may answer; after it nobody else can."""
        if self.state is State.STREAMING:
            refusal = refusal_of(failure)
            return [Abort(), Break(refusal), self.end(Outcome.BROKEN, None, failure, refusal)]
        if failure is Failure.STALE and not self.has_stale and self.endpoint is not None:
            return self.open(self.endpoint, now, is_fresh=True)
        self.attempts += 1
        self.is_held = is_held
        if failure is not Failure.FIRST_BYTE_TIMEOUT and self.attempts < self.patience.attempts_max:
            self.state = State.ASKED
            return [Abort(), Tell(LegEnded(self.request.id, failure))]
        if is_held:
            return [Deliver(), self.end(Outcome.ENGINE_ERROR, failure=failure)]
        refusal = refusal_of(failure)
        return [Abort(), Fail(refusal), self.end(Outcome.REFUSED, None, failure, refusal)]

    def watched(self, look: Watched, now: Instant) -> list[Action]:
        patience, stalled_since = self.patience, look.stalled_since
        if stalled_since is not None and now - stalled_since > patience.client_stall:
            return [Abort(), Drop(), self.end(Outcome.CANCELLED)]
        if patience.total is not None and now - self.arrived_at > patience.total:
            return self.out_of_time()
        if self.state is State.OPENING:
            waited = now - self.opened_at
            if not look.is_connected and waited > patience.connect:
                return self.failed(Failure.CONNECT_TIMEOUT, False, now)
            if waited > patience.first_byte:
                return self.failed(Failure.FIRST_BYTE_TIMEOUT, False, now)
        is_silent = now - look.last_byte_at > patience.between_bytes
        if self.state is State.STREAMING and stalled_since is None and is_silent:
            return self.failed(Failure.STALLED, False, now)
        return []

    def out_of_time(self) -> list[Action]:
        """The whole answer took longer than the config allows; that is no endpoint's fault."""
        refusal = Refusal(Reason.ENGINE_TIMEOUT, "The answer took longer than is allowed here.")
        if self.state is State.STREAMING:
            return [Abort(), Break(refusal), self.end(Outcome.BROKEN, refusal=refusal)]
        return [Abort(), Fail(refusal), self.end(Outcome.REFUSED, refusal=refusal)]

    def end(
        self,
        outcome: Outcome,
        usage: Usage | None = None,
        failure: Failure | None = None,
        refusal: Refusal | None = None,
    ) -> Tell:
        self.state = State.ENDED
        return Tell(RequestEnded(self.request.id, outcome, usage, failure, refusal))


def refusal_of(failure: Failure) -> Refusal:
    """What a client is told when an endpoint failed and nothing more can be tried."""
    match failure:
        case Failure.CONNECT | Failure.CONNECT_TIMEOUT:
            return Refusal(Reason.ENGINE_UNREACHABLE, "The engine could not be reached.", None, 1)
        case Failure.FIRST_BYTE_TIMEOUT:
            return Refusal(Reason.ENGINE_TIMEOUT, "The engine did not begin to answer in time.")
        case Failure.STALLED:
            return Refusal(Reason.ENGINE_TIMEOUT, "The engine stopped sending in the middle.")
        case Failure.GARBAGE:
            return Refusal(Reason.ENGINE_FAILED, "The engine's answer was not HTTP.")
        case Failure.BUSY:
            return Refusal(Reason.ENGINE_FAILED, "The engine cannot take this now.", None, 1)
        case Failure.STATUS | Failure.RESET | Failure.CLOSED | Failure.STALE:
            message = "The engine failed before its answer was whole."
            return Refusal(Reason.ENGINE_FAILED, message, None, 1)
