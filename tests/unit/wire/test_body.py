"""Bodies by exact spans: what is edited, what is refused, and that all else stays as it is."""

import json

import pytest

from homeport.wire.body import Body, BodyError, apply, insert, remove, replace


@pytest.mark.parametrize(
    "text",
    [
        '{"model":"a","model":"b"}',
        '{"a":1,"a":1,"b":2}',
        '{"a":1,"b":2,"a":1}',
        '{"a":{"x":1,"b":10},"b":2,"a":{"x":1}}',
        '{"a":"short","b":2,"a":"much longer than the first"}',
        '{"a":1,"pad":10,"a":{"z":0,"pad":3}}',
        '{"mod\\u0065l":"a","model":"b"}',
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    with pytest.raises(BodyError, match="twice"):
        Body(text.encode())


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"a"', '{"a":1}x', '{"a":tru}', "\xff"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(BodyError):
        Body(text.encode("latin-1"))


@pytest.mark.parametrize("space", ["", " ", "\n\t "])
def test_an_alias_is_spliced_in_and_nothing_else_changes(space: str) -> None:
    s = space
    text = f'{s}{{{s}"x"{s}:{s}1.0e2{s},{s}"model"{s}:{s}"a\\"b"{s},{s}"y":[{{}},"\\u00e9"]{s}}}{s}'
    body = Body(text.encode())
    assert body.text("model") == 'a"b'
    edited = apply(body.data, [replace(body, "model", b'"other"')])
    assert edited.decode() == text.replace('"a\\"b"', '"other"')


@pytest.mark.parametrize("gone", [list(gone) for gone in ("a", "b", "c", "ab", "bc", "ac", "abc")])
def test_members_are_taken_out_wherever_they_stand(gone: list[str]) -> None:
    body = Body(b'{"a": 1, "b": {"x": [1, 2]}, "c": "z"}')
    left = json.loads(apply(body.data, remove(body, gone)))
    assert left == {k: v for k, v in json.loads(body.data).items() if k not in gone}


@pytest.mark.parametrize("text", ["{}", '{ "a": 1 }'])
def test_a_member_is_put_in(text: str) -> None:
    body = Body(text.encode())
    assert json.loads(apply(body.data, [insert(body, b"n", b"2")])) == {**json.loads(text), "n": 2}


def test_edits_go_together() -> None:
    body = Body(b'{"rid":1,"model":"a","priority":2}')
    edits = [
        *remove(body, ["rid", "priority"]),
        replace(body, "model", b'"b"'),
        insert(body, b"s", b"3"),
    ]
    assert json.loads(apply(body.data, edits)) == {"s": 3, "model": "b"}
