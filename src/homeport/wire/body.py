"""A JSON object as its members' exact byte spans, and edits that leave every other byte alone.

msgspec checks the syntax in one pass and hands out each member's raw value, but resolves
duplicate keys silently. So the members are laid side by side over the body again: only when they
cover it exactly was no key there twice. A body whose keys the router and an engine could read
differently is refused.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
STRING = msgspec.json.Decoder(str)

SPACE = rb"[ \t\r\n]*"
NAME = rb'"([^"\\]*(?:\\.[^"\\]*)*)"' + SPACE + rb":" + SPACE
OPENING = re.compile(SPACE + rb"\{" + SPACE)
KEY = re.compile(NAME)
NEXT_KEY = re.compile(SPACE + rb"," + SPACE + NAME)
CLOSING = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*")


class BodyError(Exception):
    """The client's body cannot be used; the message says what was expected and what was found."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class Member(NamedTuple):
    """`body[begin:end]` is `"key": value`; the value begins at `value_begin`."""

    begin: int
    value_begin: int
    end: int


class Array(NamedTuple):
    """`data[begin:end]` is an array of these elements, raw."""

    data: bytes
    begin: int
    end: int
    elements: list[msgspec.Raw]


class Body:
    """A body and where its top-level members are."""

    def __init__(self, data: bytes, members: dict[str, Member] | None = None) -> None:
        self.data = data
        self.members = members_of(data) if members is None else members

    def __contains__(self, key: str) -> bool:
        return key in self.members

    def view(self, key: str) -> memoryview | None:
        """As `raw`, without a copy."""
        member = self.members.get(key)
        if member is None or self.data.startswith(b"null", member.value_begin):
            return None
        return memoryview(self.data)[member.value_begin : member.end]

    def raw(self, key: str) -> bytes | None:
        """The member's value as it stands; None when there is no such member or it is null."""
        member = self.members.get(key)
        if member is None:
            return None
        value = self.data[member.value_begin : member.end]
        return None if value == b"null" else value

    def array(self, key: str) -> Array | None:
        """An array member; raises BodyError when it is something else."""
        view = self.view(key)
        if view is None:
            return None
        if view[0] not in b"[":
            raise BodyError(f"`{key}` must be an array, found {kind_of(bytes(view[:1]))}.", key)
        _, begin, end = self.members[key]
        try:
            return Array(self.data, begin, end, ARRAY.decode(view))
        except msgspec.DecodeError as error:
            raise BodyError(f"`{key}` is not valid JSON: {error}.", key) from None

    def text(self, key: str) -> str | None:
        """A string member; raises BodyError when it is something else."""
        raw = self.raw(key)
        if raw is None:
            return None
        if raw[:1] != b'"':
            raise BodyError(f"`{key}` must be a string, found {kind_of(raw)}.", key)
        try:
            return STRING.decode(raw)
        except msgspec.DecodeError as error:
            raise BodyError(f"`{key}` is not valid JSON: {error}.", key) from None

    def flag(self, key: str) -> bool:
        """A boolean member, false when absent; raises BodyError when it is something else."""
        raw = self.raw(key)
        if raw is None or raw == b"false":
            return False
        if raw != b"true":
            raise BodyError(f"`{key}` must be true or false, found {kind_of(raw)}.", key)
        return True


class _Messages(Struct, gc=False):
    messages: list[msgspec.Raw] | None = None


LONG_BYTES = 16 << 10
"""Going twice over a shorter body costs less than cutting it."""
MESSAGES = msgspec.json.Decoder(_Messages)
MESSAGES_OPEN = b'"messages":['


def chat_body(data: bytes, long_bytes: int = LONG_BYTES) -> tuple[Body, Array | None]:
    """A body, and its messages where the pass that checks the syntax can tell them as well.

    They are nearly all of a long body, so it is not gone over twice: the messages are cut out, and
    the members looked for in what is left. None when that is not sure to be right, as with white
    space between messages or another key of that name deeper inside, or with a short body.
    """
    if len(data) < long_bytes:
        return Body(data), None
    try:
        elements = MESSAGES.decode(data).messages
    except (msgspec.MsgspecError, RecursionError):
        return Body(data), None  # which says what is wrong, or that others must judge
    begin = data.find(MESSAGES_OPEN) + len(MESSAGES_OPEN) - 1
    if not elements or begin < len(MESSAGES_OPEN):
        return Body(data), None
    end = begin + 1 + len(elements) + sum([len(memoryview(raw)) for raw in elements])
    members = members_around(data, begin, end) if data[end - 1 : end] == b"]" else None
    if members is None:
        return Body(data), None
    return Body(data, members), Array(data, begin, end, elements)


def members_around(data: bytes, begin: int, end: int) -> dict[str, Member] | None:
    """All members, from a look at what is not `messages`; None when it is not at this place."""
    try:
        members = members_of(data[:begin] + b"[]" + data[end:])
    except BodyError:
        return None
    found = members.get("messages")
    if found is None or found.value_begin != begin or found.end != begin + 2:
        return None
    shift = end - found.end
    for key, (first, value_begin, last) in members.items():
        if first > begin:
            members[key] = Member(first + shift, value_begin + shift, last + shift)
    members["messages"] = Member(found.begin, begin, end)
    return members


class Edit(Struct, frozen=True, gc=False):
    """Put `replacement` in the place of `data[begin:end]`."""

    begin: int
    end: int
    replacement: bytes


def members_of(data: bytes) -> dict[str, Member]:
    try:
        values = OBJECT.decode(data)
    except msgspec.ValidationError:
        found = kind_of(data.lstrip()[:16])
        raise BodyError(f"The body must be a JSON object, found {found}.") from None
    except RecursionError:
        raise BodyError("The body is nested too deeply.") from None
    except msgspec.DecodeError as error:
        raise BodyError(f"The body is not valid JSON: {error}.") from None
    return members_side_by_side(data, values) or members_in_any_layout(data, values)


def members_side_by_side(data: bytes, values: dict[str, msgspec.Raw]) -> dict[str, Member] | None:
    """Where members are in a body without white space or escapes around its keys, as most are.

    None when that is another layout. Whatever else stood in it, white space, an escape, or a
    member that another of the same key has hidden, would make it longer than its members are.
    """
    members: dict[str, Member] = {}
    begin = 1
    for key, raw in values.items():
        if not key.isascii():
            return None
        value_begin = begin + len(key) + 3
        end = value_begin + len(memoryview(raw))
        members[key] = Member(begin, value_begin, end)
        begin = end + 1
    return members if begin == len(data) else None


def members_in_any_layout(data: bytes, values: dict[str, msgspec.Raw]) -> dict[str, Member]:
    opening = OPENING.match(data)
    assert opening is not None, "an object begins with a brace"
    at = opening.end()
    members: dict[str, Member] = {}
    find_key = KEY.match
    for key, raw in values.items():
        value = memoryview(raw)
        found = find_key(data, at)
        if found is None or not is_key(found[1], key) or not data.startswith(value, found.end()):
            raise duplicate(data, at)
        at = found.end() + len(value)
        members[key] = Member(found.start(1) - 1, found.end(), at)
        find_key = NEXT_KEY.match
    if CLOSING.fullmatch(data, at) is None:
        raise duplicate(data, at)
    return members


def is_key(raw: bytes, key: str) -> bool:
    return raw == key.encode() or (b"\\" in raw and STRING.decode(b'"' + raw + b'"') == key)


def duplicate(data: bytes, at: int) -> BodyError:
    """Which key stands twice, as well as can be told."""
    found = KEY.search(data, at)
    key = found.group(1).decode("utf-8", "replace") if found else "?"
    return BodyError(f"The body has a key twice, near `{key}`. Send each key once.", key)


def kind_of(raw: bytes) -> str:
    """What a JSON value is, for a person."""
    first = raw.lstrip()[:1]
    if first == b'"':
        return "a string"
    if first == b"{":
        return "an object"
    if first == b"[":
        return "an array"
    if first in (b"t", b"f"):
        return "a boolean"
    return "null" if first == b"n" else "nothing" if not first else "a number"


def replace(body: Body, key: str, value: bytes) -> Edit:
    member = body.members[key]
    return Edit(member.value_begin, member.end, value)


def insert(body: Body, key: bytes, value: bytes) -> Edit:
    """A new member in front of all others."""
    opening = OPENING.match(body.data)
    assert opening is not None, "an object begins with a brace"
    comma = b"," if body.members else b""
    at = opening.end()
    return Edit(at, at, b'"' + key + b'":' + value + comma)


def remove(body: Body, keys: Sequence[str]) -> list[Edit]:
    """Take members out, each with one of the commas around it."""
    order = list(body.members)
    edits: list[Edit] = []
    kept = False
    for index, key in enumerate(order):
        member = body.members[key]
        if key not in keys:
            kept = True
            continue
        begin, end = member.begin, member.end
        if kept:
            begin = body.members[order[index - 1]].end
        elif index + 1 < len(order):
            end = body.members[order[index + 1]].begin
        edits.append(Edit(begin, end, b""))
    return edits


def apply(data: bytes, edits: list[Edit]) -> bytes:
    """The body with its edits; the same object when there are none."""
    if not edits:
        return data
    pieces: list[bytes] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.begin, edit.end)):
        pieces += (data[at : edit.begin], edit.replacement)
        at = edit.end
    pieces.append(data[at:])
    return b"".join(pieces)
