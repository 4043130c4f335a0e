"""What an answer cost, read from its last bytes; and the usage event that nobody asked for.

An answer is not parsed. Its usage object is the last thing of note in it, in JSON bodies and
streams alike, so it is found from the end and only it is decoded. A `"usage"` within a text has its
quotes escaped, hence the bytes `"usage"` followed by a colon are a key.
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from homeport.core.ids import Tokens
from homeport.core.request import Usage
from homeport.wire.sse import split_events

TAIL_BYTES = 8 << 10
"""As much of an answer's end as holds its usage, with what engines put after it."""
OBJECT_BYTES_MAX = 4 << 10
KEY = b'"usage"'
OBJECT_START = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*(?=\{)")
NO_CHOICES = re.compile(rb'"choices"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*\]')
DATA = re.compile(rb"(?:^|[\r\n])data:([^\r\n]*)")

Count = Annotated[int, Meta(ge=0, lt=1 << 53)]


class _Details(Struct, gc=False):
    cached_tokens: Count | None = None


class _Reported(Struct, gc=False):
    """The names of three APIs: chat and completions, Responses, Messages."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: _Details | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None


class _Chunk(Struct, gc=False):
    choices: list[msgspec.Raw]
    usage: dict[str, msgspec.Raw] | None = None


_reported = msgspec.json.Decoder(_Reported)
_chunk = msgspec.json.Decoder(_Chunk)


def find_usage(tail: bytes) -> Usage | None:
    """The last usage that the end of an answer reports, of whichever API. Never raises."""
    end = len(tail)
    while (end := tail.rfind(KEY, 0, end)) >= 0:
        if (start := OBJECT_START.match(tail, end + len(KEY))) is None:
            continue
        if (usage := _read_usage(_object_at(tail, start.end()))) is not None:
            return usage
    return None


def without_usage_event(block: bytes) -> bytes:
    """A block of whole events without the chunk that is there only to carry usage."""
    if KEY not in block or NO_CHOICES.search(block) is None:
        return block
    return b"".join([event for event in split_events(block) if not _only_carries_usage(event)])


def _object_at(text: bytes, start: int) -> bytes:
    """The object that opens at `start`; empty where it does not close. Braces in its strings count
    as well: they are never there, and if they were the object would not decode."""
    depth, here, limit = 0, start, start + OBJECT_BYTES_MAX
    while (close := text.find(b"}", here, limit)) >= 0:
        depth += text.count(b"{", here, close) - 1
        here = close + 1
        if depth == 0:
            return text[start:here]
    return b""


def _read_usage(text: bytes) -> Usage | None:
    try:
        reported = _reported.decode(text)
    except (ValueError, RecursionError):
        return None
    return _of_prompt(reported) or _of_input(reported)


def _of_prompt(reported: _Reported) -> Usage | None:
    if reported.prompt_tokens is None:
        return None
    details = reported.prompt_tokens_details
    return Usage(
        Tokens(reported.prompt_tokens),
        Tokens(reported.completion_tokens or 0),
        None if details is None else _tokens(details.cached_tokens),
    )


def _of_input(reported: _Reported) -> Usage | None:
    """Responses counts cached tokens within `input_tokens`, Messages beside them."""
    if reported.input_tokens is None:
        return None
    details = reported.input_tokens_details
    cached = reported.cache_read_input_tokens if details is None else details.cached_tokens
    beside = (reported.cache_read_input_tokens or 0) + (reported.cache_creation_input_tokens or 0)
    return Usage(
        Tokens(reported.input_tokens + beside), Tokens(reported.output_tokens or 0), _tokens(cached)
    )


def _tokens(count: int | None) -> Tokens | None:
    return None if count is None else Tokens(count)


def _only_carries_usage(event: bytes) -> bool:
    if KEY not in event or NO_CHOICES.search(event) is None:
        return False
    try:
        chunk = _chunk.decode(b"\n".join(DATA.findall(event)))
    except (ValueError, RecursionError):
        return False
    return not chunk.choices and chunk.usage is not None
