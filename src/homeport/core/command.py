"""All that the router can want done. Imperatives; the driver carries them out."""

from msgspec import Struct

from homeport.core.decision import Decision
from homeport.core.ids import EndpointId, Instant, RequestId
from homeport.core.refusal import Refusal


class Dispatch(Struct, frozen=True, tag=True, gc=False, array_like=True):
    """Send this request to this endpoint now."""

    request_id: RequestId
    endpoint: EndpointId
    decision: Decision


class Reject(Struct, frozen=True, tag=True, gc=False, array_like=True):
    """Tell the client no, and why. The router has forgotten the request."""

    request_id: RequestId
    refusal: Refusal


class WakeAt(Struct, frozen=True, tag=True, gc=False, array_like=True):
    """Feed `TimerFired` at this instant. A later `WakeAt` replaces an earlier one."""

    at: Instant


Command = Dispatch | Reject | WakeAt
