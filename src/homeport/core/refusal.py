"""Why a request was not answered: every way that a client can see go wrong, by name.

`wire/status.py` gives each name its status and error body. A refusal is a value, not an exception.
"""

from enum import StrEnum

from msgspec import Struct


class Reason(StrEnum):
    """The value is what clients read in `x-homeport-reason` and operators in `refusals_total`."""

    # the client's mistake
    MALFORMED = "malformed"  # the body is not the JSON that the path needs
    BAD_HTTP = "bad_http"  # framing or headers that must not be guessed at
    HEADERS_TOO_LARGE = "headers_too_large"
    BODY_TOO_LARGE = "body_too_large"
    UPLOAD_TIMEOUT = "upload_timeout"  # the request did not arrive in time
    UNAUTHENTICATED = "unauthenticated"
    UNKNOWN_PATH = "unknown_path"
    UNKNOWN_METHOD = "unknown_method"
    UNKNOWN_MODEL = "unknown_model"
    UPGRADE = "upgrade"  # only HTTP/1.1 is spoken here
    # the fleet has no room, for now
    QUEUE_FULL = "queue_full"
    WAIT_EXPIRED = "wait_expired"
    OVERLOADED = "overloaded"  # the gateway's own limit on connections or bytes
    # the fleet cannot
    NO_ENDPOINT = "no_endpoint"  # nobody serves this model now
    SHUTTING_DOWN = "shutting_down"
    ENGINE_UNREACHABLE = "engine_unreachable"
    ENGINE_FAILED = "engine_failed"  # reset, early close, or garbage
    ENGINE_TIMEOUT = "engine_timeout"
    INTERNAL = "internal"


class Refusal(Struct, frozen=True, gc=False):
    """A reason, a sentence for a person, the field at fault, and how long waiting would help."""

    reason: Reason
    message: str
    param: str | None = None
    retry_after_s: int | None = None
