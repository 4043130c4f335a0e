import pytest

from homeport.wire.sse import (
    SseEvent,
    SseOverflow,
    SseReader,
    error_event,
    last_boundary,
    split_events,
)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [SseEvent(b"", b"a")]),
        (b"data: a\r\n\r\n", [SseEvent(b"", b"a")]),
        (b"data: a\r\r", [SseEvent(b"", b"a")]),
        (b"data: a\r\n\n", [SseEvent(b"", b"a")]),
        (b"data: a\n\rdata: b\n\n", [SseEvent(b"", b"a"), SseEvent(b"", b"b")]),
        (b"data:a\n\n", [SseEvent(b"", b"a")]),
        (b"data:  a\n\n", [SseEvent(b"", b" a")]),
        (b"data: a\ndata: b\n\n", [SseEvent(b"", b"a\nb")]),
        (b"data\n\n", [SseEvent(b"", b"")]),
        (b"data\ndata\n\n", [SseEvent(b"", b"\n")]),
        (b"event: e\ndata: a\n\ndata: b\n\n", [SseEvent(b"e", b"a"), SseEvent(b"", b"b")]),
        (b"event: e\n\ndata: b\n\n", [SseEvent(b"", b"b")]),
        (b": keep-alive\n\n", []),
        (b"id: 1\nretry: 5\nother: x\ndata: a\n\n", [SseEvent(b"", b"a")]),
        (b"Data: a\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [SseEvent(b"", b"a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [SseEvent(b"", b"a")]),
        (b"\n\n\ndata: a\n\n", [SseEvent(b"", b"a")]),
        (b"data: a\n", []),
        (b"data: a\n\ndata: b", [SseEvent(b"", b"a")]),
        (b"data: \x0b\x0c\x1c\x85\n\n", [SseEvent(b"", b"\x0b\x0c\x1c\x85")]),
    ],
)
def test_a_stream_says(stream: bytes, expected: list[SseEvent]) -> None:
    assert SseReader().feed(stream) == expected


@pytest.mark.parametrize(
    ("buffer", "expected"),
    [
        (b"", 0),
        (b"\n", 0),
        (b"data: a", 0),
        (b"data: a\n", 0),
        (b"data: a\r", 0),
        (b"data: a\r\n", 0),
        (b"data: a\n\n", 9),
        (b"data: a\r\n\r\n", 11),
        (b"data: a\r\r", 9),
        (b"data: a\r\n\n", 10),
        (b"data: a\n\r\n", 10),
        (b"data: a\r\r\n", 10),
        (b"data: a\n\ndata: b", 9),
        (b"data: a\n\ndata: b\r", 9),
        (b"data: a\r\n\r\ndata: b\n", 11),
        (b"data: a\n\ndata: b\r\n\r\ndata", 20),
        (b"data: a\r\n\r\ndata: b\n\ndata", 20),
    ],
)
def test_the_last_event_that_is_over_ends_at(buffer: bytes, expected: int) -> None:
    assert last_boundary(buffer) == expected


def test_an_event_does_not_wait_for_the_second_half_of_its_last_line_end() -> None:
    reader = SseReader()
    assert last_boundary(b"data: a\r\n\r") == 10
    assert reader.feed(b"data: a\r\n\r") == [SseEvent(b"", b"a")]
    assert reader.feed(b"\ndata: b\r\n\r\n") == [SseEvent(b"", b"b")]


def test_events_are_cut_out_as_they_are() -> None:
    block = b": x\r\n\r\ndata: a\n\n\ndata: b\r\rdata: c\n\n"
    assert split_events(block) == [
        b": x\r\n\r\n",
        b"data: a\n\n",
        b"\ndata: b\r\r",
        b"data: c\n\n",
    ]


def test_blank_lines_after_the_last_event_are_kept() -> None:
    assert split_events(b"data: a\n\n\n") == [b"data: a\n\n", b"\n"]
    assert split_events(b"") == []


def test_what_is_kept_of_an_unfinished_event_is_bounded() -> None:
    reader = SseReader(limit=10)
    assert reader.feed(b"data: 1234") == []
    assert reader.feed(b"\n\ndata: 1234") == [SseEvent(b"", b"1234")]
    assert reader.feed(b"5") == [SseOverflow(10)]
    assert reader.feed(b"\n\ndata: x\n\n") == []
    assert not reader.unfinished


def test_an_overflow_comes_after_the_events_before_it() -> None:
    events = SseReader(limit=4).feed(b"data: a\n\ndata: b")
    assert events == [SseEvent(b"", b"a"), SseOverflow(4)]


def test_an_error_event_can_be_read_back() -> None:
    assert error_event(b'{"error":{}}') == b'data: {"error":{}}\n\n'
    assert SseReader().feed(error_event(b"{\n}")) == [SseEvent(b"", b"{\n}")]
