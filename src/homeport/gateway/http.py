"""What the gateway needs to know of HTTP/1.1 beyond what httptools checks."""

from http import HTTPStatus

from msgspec import Struct

from homeport.core.refusal import Reason, Refusal
from homeport.wire.headers import Pair

STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class Incoming(Struct, frozen=True, gc=False):
    """One whole request of a client."""

    method: str
    target: bytes
    path: str
    """The target without its query."""
    headers: list[Pair]
    body: bytes
    is_http11: bool
    keeps_alive: bool

    def header(self, name: bytes) -> bytes | None:
        for known, value in self.headers:
            if known == name:
                return value
        return None


def status_line(status: int) -> bytes:
    return STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def fault_of(target: bytes, headers: list[Pair], is_http11: bool) -> Refusal | None:
    """What httptools lets through and must not be guessed at: it is how requests are smuggled."""
    hosts = lengths = codings = 0
    coding = b""
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            lengths += 1
        elif name == b"transfer-encoding":
            codings += 1
            coding = value.strip().lower()
    if hosts > 1 or (is_http11 and not hosts):
        return bad(f"Expected one Host header, found {hosts}.")
    if codings and not is_http11:
        return bad("Transfer-Encoding is not allowed in HTTP/1.0.")
    if codings and lengths:
        return bad("Found both Content-Length and Transfer-Encoding; send one of them.")
    if lengths > 1:
        return bad("Found several Content-Length headers; send one.")
    if codings > 1 or (codings and coding != b"chunked"):
        return bad("The only Transfer-Encoding understood here is `chunked`.")
    if target[:1] != b"/":
        return bad("The request target must be a path that begins with `/`.")
    return None


def bad(message: str) -> Refusal:
    return Refusal(Reason.BAD_HTTP, message)
