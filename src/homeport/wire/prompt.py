"""Prompt identity: text to a chain of 64-bit xxh3 values.

The text is what the model will read, in the order in which most chat templates render it: system,
tools, messages. It is hashed as it stands in the JSON, between its quotes: unescaping 400 KB
would cost more than the rest of a decision. So the same text escaped by another encoder is
another prompt; an agent keeps its encoder, and agents of one kind share theirs. Control bytes,
which raw JSON text cannot contain, mark who speaks, so two different conversations never render
to the same bytes.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import xxhash

from homeport.core.ids import BlockHash, Bytes
from homeport.core.prefix import BLOCK_ENDS
from homeport.core.request import Prompt

TURNS_MAX = 24
"""How many newest message ends are told: an agent's turn adds an answer and its tools' results."""

SPEAKER = b"\x01"
SAYS = b"\x02"
PART = b"\x03"
MEMBER = b"\x04"

ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])

FIRST = re.compile(rb'\[\s*\{\s*"role"')
JOINT = re.compile(rb'\}\s*,\s*\{\s*"role"')
LAST = re.compile(rb"\}\s*\]\Z")
PLAIN = re.compile(rb'\s*:\s*"(\w+)"\s*,\s*"content"\s*:\s*"')
TRANSPORT_MARKS = frozenset({"cache_control"})
SYSTEM = (b"system", b"developer")


@lru_cache(maxsize=1024)
def seed_of(secret: bytes, model: str, salt: str = "") -> int:
    """Where a chain begins: caches are never shared between models, salts or fleets."""
    return xxhash.xxh3_64_intdigest(b"\x00".join((secret, model.encode(), salt.encode())))


def of_chat(messages: bytes, tools: bytes | None, seed: int) -> Prompt:
    """The identity of a conversation; `messages` and `tools` are raw, valid JSON arrays."""
    spoken = split_plain(messages)
    if spoken is None:
        spoken = [speech_of(bytes(message)) for message in ARRAY.decode(messages)]
    if tools is not None:
        leading = 0
        while leading < len(spoken) and spoken[leading][0] in SYSTEM:
            leading += 1
        spoken.insert(leading, (b"tools", tools))
    pieces = [SPEAKER + role + SAYS + text for role, text in spoken]
    return identity(pieces, seed)


def of_text(prompt: bytes, seed: int) -> Prompt:
    """The identity of a completions prompt: a raw JSON string, or an array of texts or tokens."""
    is_string = prompt[:1] == b'"'
    return identity([prompt[1:-1] if is_string else prompt], seed)


def identity(pieces: Sequence[bytes], seed: int) -> Prompt:
    """The chain over the joined pieces; each piece's end is the end of a turn."""
    digest = xxhash.xxh3_64_intdigest
    text = b"".join(pieces)
    size = len(text)
    blocks: list[BlockHash] = []
    begin, chain = 0, seed
    for end in BLOCK_ENDS:
        if end > size:
            break
        chain = digest(text[begin:end], chain)
        blocks.append(BlockHash(chain))
        begin = end
    return Prompt(tuple(blocks), turns_of(pieces, text, blocks, seed), Bytes(size))


def turns_of(
    pieces: Sequence[bytes], text: bytes, blocks: list[BlockHash], seed: int
) -> tuple[BlockHash, ...]:
    """Chain values at the exact ends of the newest pieces, newest first."""
    turns: list[BlockHash] = []
    end, whole = len(text), len(blocks)
    for piece in reversed(pieces[-TURNS_MAX:]):
        while whole and BLOCK_ENDS[whole - 1] > end:
            whole -= 1
        begin = BLOCK_ENDS[whole - 1] if whole else 0
        chain = blocks[whole - 1] if whole else seed
        # The leading byte keeps a turn's end apart from a block that ends at the same place.
        turns.append(BlockHash(xxhash.xxh3_64_intdigest(b"\x00" + text[begin:end], chain)))
        end -= len(piece)
    return tuple(turns)


def split_plain(messages: bytes) -> list[tuple[bytes, bytes]] | None:
    """Who says what, when each message is `{"role": ..., ...}`; None when they must be parsed.

    In valid JSON the bytes `},{"role"` cannot stand inside a string, since its quotes would be
    escaped.
    """
    first, last = FIRST.match(messages), LAST.search(messages, max(0, len(messages) - 64))
    if first is None or last is None:
        return None
    inner = messages[first.end() : last.start()]
    joint = JOINT.search(inner)
    parts = inner.split(joint.group()) if joint else [inner]
    spoken: list[tuple[bytes, bytes]] = []
    for part in parts:
        plain = PLAIN.match(part)
        # The first quote is the last: nothing is escaped and nothing stands after the content.
        if plain is not None and part.find(b'"', plain.end()) == len(part) - 1:
            spoken.append((plain.group(1), part[plain.end() : -1]))
            continue
        try:
            spoken.append(speech_of(b'{"role"' + part + b"}"))
        except msgspec.DecodeError:
            return None  # the joint was deeper inside a message
    return spoken


def speech_of(message: bytes) -> tuple[bytes, bytes]:
    """Role and text of one raw message: whatever of it reaches the model, in one form."""
    if message[:1] != b"{":
        return (b"", message)
    members = {key: bytes(raw) for key, raw in OBJECT.decode(message).items()}
    role = members.pop("role", b"").strip(b'"')
    said = content_of(members.pop("content", b"null"))
    for key, raw in members.items():
        if key not in TRANSPORT_MARKS and raw != b"null":
            said += MEMBER + key.encode() + SAYS + raw
    return (role, said)


def content_of(raw: bytes) -> bytes:
    """A string and a list of one text part are the same content."""
    if raw[:1] == b'"':
        return raw[1:-1]
    if raw[:1] != b"[":
        return b"" if raw == b"null" else raw
    return PART.join(part_of(bytes(part)) for part in ARRAY.decode(raw))


def part_of(raw: bytes) -> bytes:
    if raw[:1] != b"{":
        return raw
    part = {key: bytes(value) for key, value in OBJECT.decode(raw).items()}
    text = part.get("text")
    if part.get("type") in (b'"text"', b'"input_text"') and text is not None and text[:1] == b'"':
        return text[1:-1]
    kept = (k.encode() + SAYS + v for k, v in part.items() if k not in TRANSPORT_MARKS)
    return MEMBER + MEMBER.join(kept)
