"""How the payload of an answer goes to the client: raw where it can, whole events where it must.

An event stream is sent on in whole events, so that whatever happens next can follow on a clean
line. A read that is whole chunks of whole events, as nearly all are, is sent on as it came,
framing included.
"""

from collections import deque

from homeport.gateway.http import LAST_CHUNK, chunk
from homeport.wire.sse import last_boundary
from homeport.wire.usage import TAIL_BYTES, without_usage_event

HELD_BYTES_MAX = 1 << 20
"""An event longer than this is sent on in pieces, and no longer looked at."""
EVENT_ENDS = (b"\n\n", b"\r\n\r\n")


class Tail:
    """The last bytes of a payload, for the usage that stands there."""

    __slots__ = ("pieces", "size")

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()
        self.size = 0

    def add(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self.pieces.append(piece)
            self.size += len(piece)
        while self.size - len(self.pieces[0]) >= TAIL_BYTES if self.pieces else False:
            self.size -= len(self.pieces.popleft())

    def bytes(self) -> bytes:
        return b"".join(self.pieces)


class EventStream:
    """Turns reads of an event stream into what is written to the client."""

    __slots__ = ("held", "hides_usage", "is_chunked", "is_opaque", "tail")

    def __init__(self, hides_usage: bool, is_chunked: bool) -> None:
        self.hides_usage = hides_usage
        self.is_chunked = is_chunked
        """Whether the client understands chunks; one of HTTP/1.0 does not."""
        self.is_opaque = False
        self.held = b""
        self.tail = Tail()

    def pass_on(self, raw: bytes | None, pieces: list[bytes], is_whole: bool) -> bytes:
        """What to write now; empty when an event is not whole yet."""
        self.tail.add(pieces)
        if (
            raw is not None
            and self.is_chunked
            and not self.hides_usage
            and not self.held
            and (not pieces or pieces[-1].endswith(EVENT_ENDS))
        ):
            return raw
        payload = self.held + b"".join(pieces)
        cut = len(payload) if is_whole or self.is_opaque else last_boundary(payload)
        ready, self.held = payload[:cut], payload[cut:]
        if len(self.held) > HELD_BYTES_MAX:
            self.is_opaque = True
            ready, self.held = ready + self.held, b""
        if self.hides_usage:
            ready = without_usage_event(ready)
        return self.frame(ready, is_whole)

    def frame(self, payload: bytes, is_last: bool) -> bytes:
        if not self.is_chunked:
            return payload
        framed = chunk(payload) if payload else b""
        return framed + LAST_CHUNK if is_last else framed
