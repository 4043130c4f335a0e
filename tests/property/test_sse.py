"""Any bytes, cut anywhere, are the same events; and what is said of the bytes agrees with them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from homeport.wire.sse import SseEvent, SseOverflow, SseReader, last_boundary, split_events
from homeport.wire.usage import find_usage, without_usage_event

line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
lines = st.one_of(
    st.sampled_from([b"", b"", b"data", b"data: x", b"data:y", b"event: e", b": c", b"id: 1"]),
    st.binary(max_size=8),
)
streams = st.one_of(
    st.lists(st.tuples(lines, line_ends).map(b"".join), max_size=20).map(b"".join),
    st.lists(st.sampled_from([b"\n", b"\r", b"data: x", b"\xef\xbb\xbf"]), max_size=20).map(
        b"".join
    ),
)
json_pieces = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b'"usage"', b":", b"{", b"}", b"[", b"]", b",", b" ", b"null", b"\n\n", b"data: ",
                b'"prompt_tokens":1', b'"choices":[]', b'"input_tokens":2', b'\\"', b'"',
            ]
        ),
        st.binary(max_size=4),
    ),
    max_size=40,
).map(b"".join)  # fmt: skip


def events_of(pieces: list[bytes]) -> list[SseEvent | SseOverflow]:
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def by_the_letter(stream: bytes) -> list[SseEvent | SseOverflow]:
    """The standard's own words, byte by byte."""
    events: list[SseEvent | SseOverflow] = []
    name, data, line, previous = b"", b"", b"", 0
    for byte in stream.removeprefix(b"\xef\xbb\xbf"):
        if byte not in b"\r\n":
            line += bytes([byte])
        elif byte != ord("\n") or previous != ord("\r"):
            field, value = line.split(b":", 1) if b":" in line else (line, b"")
            value = value[1:] if value[:1] == b" " else value
            if line == b"":
                if data:
                    events.append(SseEvent(name, data[:-1]))
                name, data = b"", b""
            elif field == b"data":
                data += value + b"\n"
            elif field == b"event":
                name = value
            line = b""
        previous = byte
    return events


@given(streams)
def test_a_stream_is_read_by_the_letter_of_the_standard(stream: bytes) -> None:
    assert events_of([stream]) == by_the_letter(stream)


@given(streams, st.data())
def test_any_split_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=5).map(sorted))
    pieces = [stream[a:b] for a, b in pairwise([0, *cuts, len(stream)])]
    assert events_of(pieces) == events_of([stream])


@given(streams)
def test_one_byte_at_a_time_gives_the_same_events(stream: bytes) -> None:
    assert events_of([bytes([byte]) for byte in stream]) == events_of([stream])


@given(streams)
def test_all_events_end_before_the_last_boundary(stream: bytes) -> None:
    boundary = last_boundary(stream)
    assert events_of([stream[:boundary]]) == events_of([stream])
    assert not last_boundary(stream[boundary:])


@given(streams)
def test_a_boundary_never_moves_back_when_more_comes(stream: bytes) -> None:
    boundaries = [last_boundary(stream[:size]) for size in range(len(stream) + 1)]
    assert boundaries == sorted(boundaries)


@given(streams)
def test_events_cut_out_say_what_the_stream_says(stream: bytes) -> None:
    block = stream[: last_boundary(stream)]
    pieces = split_events(block)
    assert b"".join(pieces) == block
    assert all(len(events_of([piece])) <= 1 for piece in pieces)
    whole = [event for piece in pieces for event in events_of([piece])]
    if b"\xef\xbb\xbf" not in block:
        assert whole == events_of([block])


@given(json_pieces)
def test_usage_is_looked_for_in_any_bytes(tail: bytes) -> None:
    find_usage(tail)
    kept = without_usage_event(tail)
    assert len(kept) <= len(tail)
    assert without_usage_event(kept) == kept
