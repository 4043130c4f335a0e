"""Event streams: where events end, and what they say.

The relay asks only where events end (`last_boundary`, `split_events`): a stream is passed on as raw
bytes. Where it must be understood, after a failure or between two APIs, `SseReader` reads it.

An event ends at a blank line, which is two line ends in a row. A line ends with LF, CRLF or CR, so
a blank line is one of the pairs LF LF, LF CR, CR CR; the pair CR LF is one line end. An event is
over when the second of the pair begins. Should that be a CR whose LF is still on the way, the LF
becomes a blank line at the head of the next event, where it means nothing: no event waits for a
byte that may never come, and no byte is lost.
"""

import re

from msgspec import Struct

LF, CR = b"\n", b"\r"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
BLANK_LINE = re.compile(rb"\n\n|\n\r\n?|\r\r\n?")
UNFINISHED_BYTES_MAX = 16 << 20


class SseEvent(Struct, frozen=True, gc=False):
    """One event as the reader of a stream sees it. An event without a name has an empty one."""

    event: bytes
    data: bytes


class SseOverflow(Struct, frozen=True, gc=False):
    """An event did not end within `limit` bytes: the last thing that a reader returns."""

    limit: int


class SseReader:
    """Reads a stream in pieces of any size. `limit` bounds what it keeps of an unfinished event."""

    def __init__(self, limit: int = UNFINISHED_BYTES_MAX) -> None:
        self.limit = limit
        self.unfinished = bytearray()
        self.at_start = True
        self.is_over = False

    def feed(self, data: bytes) -> list[SseEvent | SseOverflow]:
        """The events that end within `data`. After an `SseOverflow` nothing more is read."""
        if self.is_over:
            return []
        already_searched = max(0, len(self.unfinished) - 1)
        self.unfinished += data
        end = last_boundary(self.unfinished, already_searched)
        events: list[SseEvent | SseOverflow] = []
        if end:
            events += _read_events(self._take(end))
        if len(self.unfinished) > self.limit:
            self.is_over = True
            self.unfinished.clear()
            events.append(SseOverflow(self.limit))
        return events

    def _take(self, end: int) -> bytes:
        block = bytes(memoryview(self.unfinished)[:end])
        del self.unfinished[:end]
        if self.at_start:
            self.at_start = False
            block = block.removeprefix(BYTE_ORDER_MARK)
        return block


def last_boundary(buffer: bytes | bytearray, start: int = 0) -> int:
    """The offset just past the last event that is over, 0 where none is.

    The caller may know that no event is over before `start`.
    """
    if buffer.endswith(EVENT_ENDS):
        return len(buffer)
    pair = buffer.rfind(b"\n\n", start)
    if CR in buffer:
        pair = max(pair, buffer.rfind(b"\n\r", start), buffer.rfind(b"\r\r", start))
    if pair < 0:
        return 0
    return pair + 3 if buffer[pair + 1 : pair + 3] == b"\r\n" else pair + 2


def split_events(block: bytes) -> list[bytes]:
    """The raw bytes of each event of a block of whole events. Joined, they are the block again."""
    events: list[bytes] = []
    start = 0
    for blank_line in BLANK_LINE.finditer(block):
        events.append(block[start : blank_line.end()])
        start = blank_line.end()
    if start < len(block):
        events.append(block[start:])
    return events


def error_event(body: bytes) -> bytes:
    """The event that tells a client that its stream broke; `body` is an error body in JSON."""
    return b"".join([b"data: %b\n" % line for line in body.splitlines()]) + LF


def _read_events(block: bytes) -> list[SseEvent]:
    events: list[SseEvent] = []
    name, data = b"", list[bytes]()
    for line in block.splitlines():
        if not line:
            if data:
                events.append(SseEvent(name, b"\n".join(data)))
            name, data = b"", []
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return events
