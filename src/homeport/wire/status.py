"""The one table from reasons to HTTP: all that a client can see go wrong.

An empty fleet is 503, overload 429, a client's mistake 4xx. The words are those of OpenAI's API, so
its clients raise the exceptions that their users expect and retry where that helps.
"""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from msgspec import Struct

from homeport.core.refusal import Reason, Refusal


class Row(Struct, frozen=True, gc=False):
    """How a reason looks from outside.

    `may_retry`: the same request, sent again later, may be answered. `closes`: what follows on this
    connection cannot be understood or is not wanted. `headers`: lines that the status calls for.
    """

    status: int
    type: str
    code: str
    may_retry: bool = False
    closes: bool = False
    headers: bytes = b""


CLIENT, SERVER, BUSY = "invalid_request_error", "server_error", "rate_limit_error"

TABLE: dict[Reason, Row] = {
    Reason.MALFORMED: Row(400, CLIENT, "malformed"),
    Reason.BAD_HTTP: Row(400, CLIENT, "bad_http", closes=True),
    Reason.HEADERS_TOO_LARGE: Row(431, CLIENT, "headers_too_large", closes=True),
    Reason.BODY_TOO_LARGE: Row(413, CLIENT, "body_too_large", closes=True),
    Reason.UPLOAD_TIMEOUT: Row(408, CLIENT, "upload_timeout", may_retry=True, closes=True),
    Reason.UNAUTHENTICATED: Row(
        401, "authentication_error", "invalid_api_key", headers=b"www-authenticate: Bearer\r\n"
    ),
    Reason.UNKNOWN_PATH: Row(404, CLIENT, "unknown_path"),
    Reason.UNKNOWN_METHOD: Row(405, CLIENT, "unknown_method"),
    Reason.UNKNOWN_MODEL: Row(404, CLIENT, "model_not_found"),
    Reason.UPGRADE: Row(
        426,
        CLIENT,
        "upgrade",
        closes=True,
        headers=b"upgrade: HTTP/1.1\r\nconnection: upgrade\r\n",
    ),
    Reason.QUEUE_FULL: Row(429, BUSY, "queue_full", may_retry=True),
    Reason.WAIT_EXPIRED: Row(429, BUSY, "wait_expired", may_retry=True),
    Reason.OVERLOADED: Row(429, BUSY, "overloaded", may_retry=True),
    Reason.NO_ENDPOINT: Row(503, SERVER, "no_endpoint", may_retry=True),
    Reason.SHUTTING_DOWN: Row(503, SERVER, "shutting_down", may_retry=True, closes=True),
    Reason.ENGINE_UNREACHABLE: Row(502, SERVER, "engine_unreachable", may_retry=True),
    Reason.ENGINE_FAILED: Row(502, SERVER, "engine_failed", may_retry=True),
    Reason.ENGINE_TIMEOUT: Row(504, SERVER, "engine_timeout", may_retry=True),
    Reason.INTERNAL: Row(500, SERVER, "internal", closes=True),
}

CONNECTION_CLOSE = (b"connection", b"close")


class _Error(Struct, gc=False):
    message: str
    type: str
    param: str | None
    code: str


class _Body(Struct, gc=False):
    error: _Error


def status_of(reason: Reason) -> int:
    """The HTTP status of a reason."""
    return TABLE[reason].status


def error_body(refusal: Refusal) -> bytes:
    """The error in the form that OpenAI's clients read, in one line."""
    row = TABLE[refusal.reason]
    error = _Error(refusal.message, row.type, refusal.param, row.code)
    return msgspec.json.encode(_Body(error))


def refusal_head(
    refusal: Refusal, body_bytes: int, headers: Sequence[tuple[bytes, bytes]] = ()
) -> bytes:
    """Status line and headers of a refusal, with the blank line; `headers` are the caller's own.

    A caller that leaves a request's body unread adds `CONNECTION_CLOSE`.
    """
    row = TABLE[refusal.reason]
    lines = [
        b"HTTP/1.1 %d %b\r\n" % (row.status, HTTPStatus(row.status).phrase.encode()),
        b"content-type: application/json\r\ncontent-length: %d\r\n" % body_bytes,
        b"x-homeport-reason: %b\r\n" % refusal.reason.encode(),
        row.headers,
    ]
    if row.may_retry and refusal.retry_after_s is not None:
        lines.append(b"retry-after: %d\r\n" % refusal.retry_after_s)
    if row.closes and CONNECTION_CLOSE not in headers:
        lines.append(b"connection: close\r\n")
    lines += [b"%b: %b\r\n" % header for header in headers]
    return b"".join(lines) + b"\r\n"
