"""Bodies against the standard library's reader: same members, and edits mean what they say."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeport.wire.body import Array, Body, BodyError, apply, chat_body, insert, remove, replace
from homeport.wire.openai import RESERVED_FIELDS, body_for, facts_of

SPACE = st.sampled_from(["", "", " ", "\n", " \t\r\n"])
KEYS = st.one_of(st.sampled_from("abc"), st.text(st.characters(codec="utf-8"), max_size=4))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def objects(draw: st.DrawFn) -> str:
    """An object as some encoder might write it, now and then with a key twice."""
    members: list[str] = []
    for _ in range(draw(st.integers(0, 5))):
        key = json.dumps(draw(KEYS), ensure_ascii=draw(st.booleans()))
        if draw(st.integers(0, 5)) == 0 and len(key) > 2 and key[1].isalnum():
            key = f'"\\u{ord(key[1]):04x}{key[2:]}'
        value = json.dumps(draw(VALUES), indent=draw(st.sampled_from([None, 1])))
        s = [draw(SPACE) for _ in range(4)]
        members.append(f"{s[0]}{key}{s[1]}:{s[2]}{value}{s[3]}")
    return f"{draw(SPACE)}{{{draw(SPACE) if not members else ''}{','.join(members)}}}{draw(SPACE)}"


def pairs_of(text: str) -> list[tuple[str, Any]]:
    return json.loads(text, object_pairs_hook=list)


def has_twice(text: str) -> bool:
    keys = [key for key, _ in pairs_of(text)]
    return len(set(keys)) < len(keys)


@given(objects())
def test_members_are_those_that_are_there_and_none_stands_twice(text: str) -> None:
    try:
        body = Body(text.encode())
    except BodyError:
        assert has_twice(text)
        return
    assert not has_twice(text)
    spans = {key: body.data[m.value_begin : m.end] for key, m in body.members.items()}
    found = [(key, json.loads(raw, object_pairs_hook=list)) for key, raw in spans.items()]
    assert found == pairs_of(text)
    for key, member in body.members.items():
        whole = json.loads(b"{" + body.data[member.begin : member.end] + b"}")
        assert list(whole) == [key], "a member's span is the member"


NESTED: list[Any] = [[]]
MESSAGES = st.lists(VALUES | st.just(NESTED), max_size=3)


@given(objects(), MESSAGES, st.booleans(), st.sampled_from(["messages", "mess\\u0061ges"]))
def test_messages_are_found_in_the_first_pass_or_not_at_all(
    text: str, messages: list[Any], is_compact: bool, key: str
) -> None:
    separators = (",", ":") if is_compact else None
    inner = json.dumps({"messages": messages, "x": 1}, separators=separators)
    member = f'"{key}":{json.dumps(messages, separators=separators)}'
    begin, end = text.index("{") + 1, text.rindex("}")
    is_empty = not text[begin:end].strip()
    for whole in (
        f"{text[:begin]}{member}{'' if is_empty else ','}{text[begin:]}",
        f"{text[:end]}{'' if is_empty else ','}{member}{text[end:]}",
        f'{text[:begin]}"z":{inner},{member}{"" if is_empty else ","}{text[begin:]}',
        f'{{"messages":[1],{member}}}',
    ):
        data = whole.encode()
        try:
            slow = Body(data)
        except BodyError as error:
            with pytest.raises(BodyError, match=re.escape(error.message)):
                chat_body(data, long_bytes=0)
            continue
        body, array = chat_body(data, long_bytes=0)
        assert body.members == slow.members
        assert array is None or array_bytes(array) == messages


def array_bytes(array: Array) -> Any:
    assert [bytes(raw) for raw in array.elements], "an empty list is left to the slow way"
    return json.loads(array.data[array.begin : array.end])


@given(objects(), st.sets(st.integers(0, 4)), st.data())
def test_edits_change_what_they_name(text: str, gone: set[int], data: st.DataObject) -> None:
    if has_twice(text):
        return
    body, wanted = Body(text.encode()), dict(json.loads(text))
    keys = list(body.members)
    removed = [key for index, key in enumerate(keys) if index in gone]
    kept = [key for key in keys if key not in removed]
    edits = remove(body, removed)
    for key in removed:
        del wanted[key]
    if kept:
        changed = data.draw(st.sampled_from(kept))
        edits += [replace(body, changed, b'"new"'), insert(body, b"inserted", b"[1]")]
        wanted |= {changed: "new", "inserted": [1]}
    edited = apply(body.data, edits)
    assert json.loads(edited) == wanted
    assert not has_twice(edited.decode())


@given(objects(), st.lists(st.sampled_from(sorted(RESERVED_FIELDS)), unique=True), st.booleans())
def test_what_is_sent_is_what_came_but_for_what_was_asked(
    text: str, reserved: list[str], asks_usage: bool
) -> None:
    if has_twice(text):
        return
    came: dict[str, Any] = {
        **dict.fromkeys(reserved[:1], 1),
        **json.loads(text),
        "model": "m",
        "prompt": "x",
        "stream": True,
        **dict.fromkeys(reserved[1:]),
    }
    facts = facts_of("completions", json.dumps(came).encode(), b"")
    wanted = {key: value for key, value in came.items() if key not in RESERVED_FIELDS}
    wanted["model"] = "n"
    if asks_usage:
        wanted["stream_options"] = {"include_usage": True}
    assert json.loads(body_for(facts, "n", asks_usage)) == wanted


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_a_mistake(data: bytes) -> None:
    for raw in (data, b'{"model":"m","messages":[' + data + b"]}", b'{"model":"' + data + b'"}'):
        try:
            facts_of("chat", raw, b"")
        except BodyError as error:
            assert error.message
