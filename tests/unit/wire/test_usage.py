import pytest

from homeport.core.ids import Tokens
from homeport.core.request import Usage
from homeport.wire.usage import find_usage, without_usage_event

CHAT = b'{"choices":[],"usage":{"prompt_tokens":15,"completion_tokens":6,"total_tokens":21'


def usage(prompt: int, output: int, cached: int | None = None) -> Usage:
    return Usage(Tokens(prompt), Tokens(output), None if cached is None else Tokens(cached))


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (CHAT + b"}}", usage(15, 6)),
        (CHAT + b',"prompt_tokens_details":{"cached_tokens":8}}}', usage(15, 6, 8)),
        (CHAT + b',"prompt_tokens_details":{"cached_tokens":null}}}', usage(15, 6)),
        (CHAT + b',"prompt_tokens_details":null}}', usage(15, 6)),
        (b'"usage" : \r\n {"prompt_tokens":1}', usage(1, 0)),
        (b'"usage":{"prompt_tokens":1,"completion_tokens":null}', usage(1, 0)),
        (b'"usage":{"prompt_tokens":1} "usage":{"prompt_tokens":2}', usage(2, 0)),
        (b'"usage":{"prompt_tokens":1} "usage":null', usage(1, 0)),
        (b'"usage":{"prompt_tokens":1} "usage":{"prompt_tokens":nu', usage(1, 0)),
        (b'"usage":{"prompt_tokens":1} "usage":{"total_tokens":2}', usage(1, 0)),
        (b'"usage":{"prompt_tokens":1},"type":"usage"}', usage(1, 0)),
        (b'"usage":{"prompt_tokens":1},"x":"\\"usage\\":{\\"prompt_tokens\\":9}"', usage(1, 0)),
        (b'"usage":{"a":{"b":{"c":{}}},"prompt_tokens":1}', usage(1, 0)),
        (b'"usage":{"note":"}","prompt_tokens":1}', None),
        (b'"usage":{"prompt_tokens":-1}', None),
        (b'"usage":{"prompt_tokens":1.5}', None),
        (b'"usage":{"prompt_tokens":true}', None),
        (b'"usage":{"prompt_tokens":99999999999999999999}', None),
        (b'"usage":{"x":' + b"[" * 3000 + b"}", None),
        (b'"usage":{' * 900, None),
        (b'"usage"', None),
        (b"", None),
    ],
)
def test_the_last_usage_is(tail: bytes, expected: Usage | None) -> None:
    assert find_usage(tail) == expected


def test_responses_count_cached_tokens_within_the_prompt() -> None:
    tail = (
        b'"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":2}'
    )
    assert find_usage(tail) == usage(9, 2, 4)


def test_messages_count_cached_tokens_beside_the_prompt() -> None:
    tail = (
        b'"usage":{"input_tokens":5,"output_tokens":2,'
        b'"cache_creation_input_tokens":1,"cache_read_input_tokens":3}'
    )
    assert find_usage(tail) == usage(9, 2, 3)
    assert find_usage(b'"usage":{"input_tokens":5,"output_tokens":2}') == usage(5, 2)


TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
ONLY_USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "event",
    [
        ONLY_USAGE,
        b'data: {"usage": {"prompt_tokens": 1}, "choices" : [ ] }\r\n\r\n',
        b'id: 7\ndata:{"choices":[],"usage":{}}\n\n',
        b'data: {"choices":[],"usage":{"prompt_tokens":"many"}}\n\n',
        b'\ndata: {"choices":[],"usage":{"prompt_tokens":1}}\n\n',
    ],
)
def test_the_event_that_only_carries_usage_is_taken_out(event: bytes) -> None:
    assert without_usage_event(TEXT + event + DONE) == TEXT + DONE
    assert without_usage_event(event) == b""


@pytest.mark.parametrize(
    "event",
    [
        TEXT,
        DONE,
        b'data: {"choices":[],"prompt_filter_results":[]}\n\n',
        b'data: {"choices":[],"usage":null}\n\n',
        b'data: {"choices":[{"index":0}],"usage":{"prompt_tokens":1}}\n\n',
        b'data: {"choices":[{"x":{"choices":[]}}],"usage":{"prompt_tokens":1}}\n\n',
        b'data: {"x":{"choices":[],"usage":{}}}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\"choices\\":[],\\"usage\\":{}"}}]}\n\n',
        b'data: {"choices":[],"usage":{\n\n',
        b': "choices":[],"usage":{}\n\n',
    ],
)
def test_every_other_event_stays_as_it_is(event: bytes) -> None:
    block = TEXT + event + DONE
    assert without_usage_event(block) == block
    assert without_usage_event(block + ONLY_USAGE) == block
