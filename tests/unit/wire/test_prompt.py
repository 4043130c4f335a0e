"""Who a prompt is: what must be the same prompt, and what must not."""

import json
from typing import Any

import pytest

from homeport.core.request import Prompt
from homeport.wire.body import ARRAY, Array
from homeport.wire.prompt import of_chat, of_text

USER = {"role": "user", "content": "x" * 1_000}


def chat(*messages: Any, tools: Any = None, compact: bool = True) -> Prompt:
    separators = (",", ":") if compact else (", ", ": ")
    raw = json.dumps(messages, separators=separators).encode()
    return of_chat(array(raw), None if tools is None else json.dumps(tools).encode(), 1)


def array(raw: bytes) -> Array:
    return Array(raw, 0, len(raw), ARRAY.decode(raw))


def test_a_string_and_a_list_of_one_text_part_are_the_same() -> None:
    part = {"type": "text", "text": "x" * 1_000}
    assert chat(USER) == chat({"role": "user", "content": [part]})


def test_transport_marks_do_not_count() -> None:
    part = {"type": "text", "text": "x" * 1_000, "cache_control": {"type": "ephemeral"}}
    assert chat(USER) == chat({"role": "user", "content": [part]})
    assert chat(USER) == chat({**USER, "cache_control": {"type": "ephemeral"}})


def test_layout_does_not_count() -> None:
    other = {"role": "assistant", "content": "y" * 700}
    assert chat(USER, other) == chat(USER, other, compact=False)
    swapped = {"content": USER["content"], "role": "user"}
    assert chat(USER, other) == chat(swapped, other)
    call = {"role": "tool", "tool_call_id": "call_1", "content": "result"}
    assert chat(USER, call) == chat(USER, call, compact=False)


@pytest.mark.parametrize(
    "other",
    [
        {"role": "system", "content": "x" * 1_000},
        {"role": "user", "content": "x" * 999 + "y"},
        {"role": "user", "content": "x" * 1_000, "name": "bob"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x" * 1_000}}]},
        {"role": "user", "content": None},
    ],
)
def test_different_prompts_differ(other: Any) -> None:
    assert chat(USER).turns != chat(other).turns


def test_a_growing_conversation_keeps_its_chain() -> None:
    before = chat(USER)
    after = chat(USER, {"role": "assistant", "content": "z"}, {"role": "user", "content": "more"})
    assert after.blocks[: len(before.blocks)] == before.blocks
    assert before.turns[0] in after.turns[1:]


def test_tool_calls_and_null_content_are_part_of_it() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert chat(USER, message).turns != chat(USER, {"role": "assistant", "content": None}).turns


def test_tools_stand_after_the_system_prompt() -> None:
    system = {"role": "system", "content": "s" * 600}
    with_tools = chat(system, USER, tools=[{"type": "function"}])
    assert with_tools.blocks[:2] == chat(system, USER).blocks[:2]
    assert with_tools.turns[0] != chat(system, USER).turns[0]


def test_a_joint_inside_a_message_is_no_joint() -> None:
    nested = {
        "role": "user",
        "content": [{"role": "a"}, {"role": "b"}, {"type": "text", "text": "t"}],
    }
    assert len(chat(USER, nested).turns) == 2


def test_text_prompts() -> None:
    short, long = of_text(b'"' + b"x" * 900 + b'"', 1), of_text(b'"' + b"x" * 1_900 + b'"', 1)
    assert long.blocks[: len(short.blocks)] == short.blocks
    assert of_text(b"[1,2,3]", 1).turns != of_text(b"[1,2,4]", 1).turns


@pytest.mark.parametrize("raw", [b"[1]", b'[null,"x"]', b"[]", b'[{"role":1,"content":2}]'])
def test_what_only_the_engine_can_judge_has_an_identity_all_the_same(raw: bytes) -> None:
    assert isinstance(of_chat(array(raw), None, 1), Prompt)


TOOL = {"role": "tool", "content": "result", "tool_call_id": "call_1"}
ANSWER = {"content": 'said "so"', "role": "assistant"}
NESTED = {"role": "user", "content": [{"role": "a"}, {"role": "b"}]}


@pytest.mark.parametrize("message", [TOOL, ANSWER, NESTED, {"role": "user", "content": "a\\"}])
@pytest.mark.parametrize("compact", [True, False])
def test_each_message_is_a_turn_whatever_stands_around_it(message: Any, compact: bool) -> None:
    before = chat(USER, TOOL, compact=compact)
    after = chat(USER, TOOL, message, USER, compact=compact)
    assert len(after.turns) == 4
    assert before.turns[0] in after.turns[1:]


def test_members_beside_the_content_are_not_content() -> None:
    assert chat(TOOL) == chat(TOOL, compact=False)
    assert chat(TOOL).turns != chat({"role": "tool", "content": "result"}).turns


def test_joints_of_several_layouts_in_one_list() -> None:
    raw = (
        b'[{"role":"user","content":"a"} ,{"role":"user","content":"b"},{"role":"x","content":"c"}]'
    )
    parts = [{"role": r, "content": c} for r, c in (("user", "a"), ("user", "b"), ("x", "c"))]
    assert of_chat(array(raw), None, 1) == chat(*parts)
