"""Prompt identity: text to a chain of 64-bit xxh3 values.

The text is a conversation's messages as they stand in the JSON, less what is written anew in one
form: white space between members, content that is a list of one text, marks for the transport.
Nearly every agent already writes that form, so nearly every prompt is hashed where it lies, without
a copy. Nothing is unescaped, which would cost more than the rest of a decision: the same text
escaped by another encoder is another prompt, but an agent keeps its encoder, and agents of one
kind share theirs. Tools stand after the system prompt, where most chat templates render them.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import msgspec
import xxhash

from homeport.core.ids import BlockHash, Bytes
from homeport.core.prefix import BLOCK_ENDS
from homeport.core.request import Prompt
from homeport.wire.body import ARRAY, Array

TURNS_MAX = 24
"""How many newest message ends are told: an agent's turn adds an answer and its tools' results."""
TURN = 0x00FF_00FF_0F0F_3C3C
"""Keeps a turn's end apart from a block that ends at the same place."""

OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])

AS_IT_STANDS = re.compile(
    rb'\{"role":"\w+",'
    rb'(?:"content":["n]|"tool_calls":\[|"tool_call_id":"[^"\\]*","content":")'
)
"""The beginnings of messages that would be written just so."""
MARK = b'"cache_control"'
MARK_REACH = 256
"""How far before a message's end its mark for the transport can stand."""
SYSTEM = re.compile(rb'\{"role":"(?:system|developer)"')


@lru_cache(maxsize=1024)
def seed_of(secret: bytes, model: str, salt: str = "") -> int:
    """Where a chain begins: caches are never shared between models, salts or fleets."""
    return xxhash.xxh3_64_intdigest(b"\x00".join((secret, model.encode(), salt.encode())))


def of_chat(messages: Array, tools: bytes | memoryview | None, seed: int) -> Prompt:
    """The identity of a conversation; `tools` is a raw array.

    Raises msgspec.DecodeError where a message is not JSON deep inside.
    """
    ends = ends_as_they_stand(messages)
    if ends is None:
        text, ends = written_anew(messages)
    else:
        text = memoryview(messages.data)[messages.begin : messages.end - 1]
    if tools is not None:
        text, ends = with_tools(bytes(text), tools, ends)
    return identity(text, ends, seed)


def of_text(prompt: bytes | memoryview, seed: int) -> Prompt:
    """The identity of a completions prompt: a raw JSON string, or an array of texts or tokens."""
    if prompt[0] in b'"':
        prompt = prompt[1:-1]
    return identity(prompt, [len(prompt)], seed)


def identity(text: bytes | memoryview, ends: Sequence[int], seed: int) -> Prompt:
    """The chain over the text; each of `ends`, in rising order, is the end of a turn."""
    digest = xxhash.xxh3_64_intdigest
    size = len(text)
    blocks: list[BlockHash] = []
    begin, chain = 0, seed
    for end in BLOCK_ENDS:
        if end > size:
            break
        chain = digest(text[begin:end], chain)
        blocks.append(BlockHash(chain))
        begin = end
    turns: list[BlockHash] = []
    for end in reversed(ends[-TURNS_MAX:]):
        whole = bisect_right(BLOCK_ENDS, end)
        begin, chain = (BLOCK_ENDS[whole - 1], blocks[whole - 1]) if whole else (0, seed)
        turns.append(BlockHash(digest(text[begin:end], chain ^ TURN)))
    return Prompt(tuple(blocks), tuple(turns), Bytes(size))


def ends_as_they_stand(messages: Array) -> list[int] | None:
    """Where each message ends; None when one of them, or what is between, must be written anew."""
    data, begin, end, elements = messages
    ends: list[int] = []
    at = begin
    for raw in elements:
        first, at = at + 1, at + 1 + len(memoryview(raw))
        if AS_IT_STANDS.match(data, first, at) is None:
            return None
        if data.find(MARK, max(first, at - MARK_REACH), at) >= 0:
            return None
        ends.append(at - begin)
    # One byte before each message and one at the end leave no room for white space.
    return ends if at + 1 == end else None


def written_anew(messages: Array) -> tuple[bytes, list[int]]:
    """Text and turns of a conversation in the one form."""
    written = [as_written(bytes(raw)) for raw in messages.elements]
    return b"[" + b",".join(written), [*accumulate([1 + len(message) for message in written])]


def with_tools(
    messages: bytes, tools: bytes | memoryview, ends: Sequence[int]
) -> tuple[bytes, list[int]]:
    """Text and turns with the tools after the leading system messages."""
    leading = at = 0
    while leading < len(ends) and SYSTEM.match(messages, at + 1) is not None:
        at = ends[leading]
        leading += 1
    text = b"".join((messages[:at], tools, messages[at:]))
    return text, [*ends[:leading], *[end + len(tools) for end in ends[leading:]]]


def as_written(message: bytes) -> bytes:
    """One message in the form that nearly every agent uses: compact, its role first."""
    if message[:1] != b"{":
        return message
    if AS_IT_STANDS.match(message) is not None and message.find(MARK, -MARK_REACH) < 0:
        return message
    members = {key: bytes(raw) for key, raw in OBJECT.decode(message).items()}
    role = members.pop("role", None)
    if role is not None:
        members = {"role": role, **members}
    if "content" in members:
        members["content"] = content_of(members["content"])
    return written_object(members)


def content_of(raw: bytes) -> bytes:
    """A string and a list of one text part are the same content."""
    if raw[:1] != b"[":
        return raw
    parts = [part_of(bytes(part)) for part in ARRAY.decode(raw)]
    if len(parts) == 1 and (text := only_text(parts[0])) is not None:
        return text
    return b"[" + b",".join([written_object(part) for part in parts]) + b"]"


def part_of(raw: bytes) -> dict[str, bytes] | bytes:
    if raw[:1] != b"{":
        return raw
    return {key: bytes(value) for key, value in OBJECT.decode(raw).items()}


def only_text(part: dict[str, bytes] | bytes) -> bytes | None:
    if isinstance(part, bytes) or part.get("type") not in (b'"text"', b'"input_text"'):
        return None
    text = part.get("text")
    return text if text is not None and text[:1] == b'"' else None


def written_object(members: dict[str, bytes] | bytes) -> bytes:
    if isinstance(members, bytes):
        return members
    kept = [
        b'"%b":%b' % (key.encode(), raw) for key, raw in members.items() if key != "cache_control"
    ]
    return b"{" + b",".join(kept) + b"}"
