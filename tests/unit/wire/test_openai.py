"""Facts of a body, and what an engine is sent in its place."""

import json
from typing import Any

import pytest

from homeport.wire.body import BodyError
from homeport.wire.openai import RESERVED_FIELDS, Facts, Kind, body_for, facts_of

MESSAGES = [{"role": "user", "content": "hi"}]


def facts(kind: Kind = "chat", **members: Any) -> Facts:
    body = {"model": "m", "messages": MESSAGES, **members}
    return facts_of(kind, json.dumps(body).encode(), b"secret")


def sent(of: Facts, served_as: str = "m", *, asks_usage: bool = False) -> dict[str, Any]:
    return json.loads(body_for(of, served_as, asks_usage))


def test_what_needs_no_change_is_sent_as_it_is() -> None:
    of = facts(stream=True)
    assert body_for(of, "m", asks_usage=False) is of.body.data


def test_the_engine_hears_its_own_name() -> None:
    of = facts(temperature=0.5)
    assert body_for(of, 'org/"x"', asks_usage=False) == of.body.data.replace(
        b'"m"', b'"org/\\"x\\""'
    )


@pytest.mark.parametrize("field", sorted(RESERVED_FIELDS))
def test_reserved_fields_never_reach_an_engine(field: str) -> None:
    members: dict[str, Any] = {field: {"x": 1}, "temperature": 1}
    of = facts("chat", **members)
    assert of.reserved == (field,)
    assert sent(of) == {"model": "m", "messages": MESSAGES, "temperature": 1}


def test_all_reserved_fields_at_once_in_front_and_behind() -> None:
    names = sorted(RESERVED_FIELDS)
    body = {**dict.fromkeys(names[:4], 1), "prompt": "x", "model": "m", **dict.fromkeys(names[4:])}
    of = facts_of("completions", json.dumps(body).encode(), b"secret")
    assert sent(of, "n") == {"prompt": "x", "model": "n"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"include_usage": True}),
        (None, {"include_usage": True}),
        ({"include_usage": False}, {"include_usage": True}),
        ({"include_usage": None, "x": [1.50]}, {"include_usage": True, "x": [1.5]}),
    ],
)
def test_usage_is_asked_for_where_the_client_did_not(options: Any, expected: Any) -> None:
    of = facts(stream=True, stream_options=options)
    assert not of.wants_usage
    assert sent(of, asks_usage=True)["stream_options"] == expected


def test_usage_is_asked_for_where_there_are_no_options() -> None:
    assert sent(facts(stream=True), asks_usage=True)["stream_options"] == {"include_usage": True}


def test_who_asked_for_usage_gets_it() -> None:
    of = facts(stream=True, stream_options={"include_usage": True})
    assert of.wants_usage
    assert body_for(of, "m", asks_usage=True) is of.body.data


def test_a_document_needs_no_asking() -> None:
    assert "stream_options" not in sent(facts(stream=False), asks_usage=True)


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 1}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"tools": "x"}, "tools"),
        ({"stream": "yes"}, "stream"),
        ({"stream": True, "stream_options": [1]}, "stream_options"),
    ],
)
def test_what_cannot_be_used_is_named(members: dict[str, Any], param: str) -> None:
    with pytest.raises(BodyError) as caught:
        facts(**members)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"\xff","messages":[]}',
        b'{"\xff":1,"model":"m","messages":[]}',
        b'{"model":"m","messages":[{"role":"user","\xff":"x"}]}',
        b'{"model":"m","messages":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"m","messages":[{"role":"user","content":"\x01"}]}',
    ],
)
def test_bytes_that_are_no_json_are_the_clients_mistake(raw: bytes) -> None:
    with pytest.raises(BodyError):
        facts_of("chat", raw, b"secret")


@pytest.mark.parametrize("prompt", ["text", ["a", "b"], [1, 2, 3], [[1], [2]]])
def test_a_completions_prompt_may_be_text_or_tokens(prompt: Any) -> None:
    assert facts("completions", prompt=prompt).prompt.text_bytes > 0


@pytest.mark.parametrize("prompt", [None, 1, {"a": 1}])
def test_a_completions_prompt_may_be_nothing_else(prompt: Any) -> None:
    with pytest.raises(BodyError):
        facts("completions", prompt=prompt)


def test_a_prompt_of_embeddings_has_no_identity() -> None:
    assert facts("completions", prompt_embeds="AAAA").prompt.text_bytes == 0


@pytest.mark.parametrize(
    ("members", "session"),
    [
        ({}, None),
        ({"session_id": "s"}, "s"),
        ({"prompt_cache_key": "p"}, "p"),
        ({"prompt_cache_key": "p", "session_id": "s"}, "s"),
        ({"session_id": ""}, None),
        ({"session_id": 7}, None),
        ({"session_id": None, "prompt_cache_key": "p"}, "p"),
        ({"session_id": "x" * 256}, "x" * 256),
        ({"session_id": "x" * 257}, None),
    ],
)
def test_the_key_of_a_session(members: dict[str, Any], session: str | None) -> None:
    assert facts(**members).session == session


def test_caches_are_not_shared_between_models_salts_and_fleets() -> None:
    content = [{"role": "user", "content": "x" * 1_000}]
    body = {"messages": content, "model": "m"}
    chains = [
        facts_of("chat", json.dumps(each).encode(), secret).prompt.blocks[0]
        for each, secret in (
            (body, b"one"),
            (body, b"two"),
            ({**body, "model": "n"}, b"one"),
            ({**body, "cache_salt": "z"}, b"one"),
        )
    ]
    assert len(set(chains)) == 4
