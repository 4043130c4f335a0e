"""Streams and answers of real engines: cut at every byte they say the same."""

from pathlib import Path

import msgspec
import pytest

from homeport.core.ids import Tokens
from homeport.core.request import Usage
from homeport.wire.sse import SseEvent, SseOverflow, SseReader, last_boundary, split_events
from homeport.wire.usage import TAIL_BYTES, find_usage, without_usage_event

CHAT = Usage(Tokens(15), Tokens(6), Tokens(0))
STREAMS = {
    "sse_chat.txt": CHAT,
    "sse_chat_tokenids.txt": Usage(Tokens(15), Tokens(4), Tokens(0)),
    "sse_chat_varied.txt": Usage(Tokens(20), Tokens(10), Tokens(0)),
    "sse_completions.txt": Usage(Tokens(5), Tokens(6), Tokens(0)),
    "sse_llamacpp_chat.txt": None,
    "sse_messages.txt": Usage(Tokens(13), Tokens(6), Tokens(0)),
    "sse_pd_prefill.txt": Usage(Tokens(47), Tokens(1), Tokens(0)),
    "sse_responses.txt": CHAT,
    "sse_sglang_chat.txt": Usage(Tokens(15), Tokens(6), None),
}
BODIES = {"nonstream_chat.txt": CHAT, "nonstream_responses.txt": CHAT}
WITHOUT_USAGE_EVENT = ("sse_llamacpp_chat.txt", "sse_messages.txt", "sse_responses.txt")

each_stream = pytest.mark.parametrize("name", STREAMS)


def body_of(capture: bytes) -> bytes:
    """The body of a captured answer. Its chunks are joined; one capture has no head at all."""
    if not capture.startswith(b"HTTP/"):
        return capture
    head, _, rest = capture.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return rest
    chunks: list[bytes] = []
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not (length := int(size, 16)):
            return b"".join(chunks)
        chunks.append(rest[:length])
        assert rest[length : length + 2] == b"\r\n"
        rest = rest[length + 2 :]


def read(*pieces: bytes) -> list[SseEvent | SseOverflow]:
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_no_stream_is_forgotten(captures: Path) -> None:
    assert sorted(path.name for path in captures.glob("sse_*.txt")) == sorted(STREAMS)
    assert sorted(path.name for path in captures.glob("nonstream_*.txt")) == sorted(BODIES)


@each_stream
def test_every_event_holds_json(captures: Path, name: str) -> None:
    events = read(body_of((captures / name).read_bytes()))
    assert len(events) > 2
    for event in events:
        assert isinstance(event, SseEvent)
        assert event.data == b"[DONE]" or msgspec.json.decode(event.data)


@each_stream
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_cut_at_every_byte_the_events_are_the_same(
    captures: Path, name: str, line_end: bytes
) -> None:
    stream = body_of((captures / name).read_bytes()).replace(b"\n", line_end)
    whole = read(stream)
    assert last_boundary(stream) == len(stream)
    assert len(split_events(stream)) == len(whole)
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == whole
    for cut in range(len(stream)):
        assert read(stream[:cut], stream[cut:]) == whole


@each_stream
def test_usage_is_that_of_the_last_event(captures: Path, name: str) -> None:
    stream = body_of((captures / name).read_bytes())
    assert find_usage(stream) == STREAMS[name]
    assert find_usage(stream[-TAIL_BYTES:]) == STREAMS[name]


@pytest.mark.parametrize("name", BODIES)
def test_usage_of_a_whole_body(captures: Path, name: str) -> None:
    body = body_of((captures / name).read_bytes())
    assert find_usage(body) == BODIES[name]
    for cut in range(len(body)):
        find_usage(body[cut:])
        find_usage(body[:cut])


@each_stream
def test_only_the_usage_event_is_taken_out(captures: Path, name: str) -> None:
    stream = body_of((captures / name).read_bytes())
    kept = without_usage_event(stream)
    events = split_events(stream)
    if name not in WITHOUT_USAGE_EVENT:
        (usage_event,) = [event for event in events if b'"choices":[]' in event]
        assert kept == b"".join(event for event in events if event is not usage_event)
    else:
        assert kept == stream
    assert b"".join(map(without_usage_event, events)) == kept
