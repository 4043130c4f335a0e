"""The `openai` SDK, unmodified, over simulated engines."""

from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from processes import MODEL, Engine, Gateway

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello there"}]
TOOL: Any = {
    "type": "function",
    "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}},
}


def test_chat(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8)
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8


def test_a_stream_says_what_the_whole_says(client: OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8)
    chunks = list(
        client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8, stream=True)
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "length"


def test_usage_is_hidden_where_nobody_asked(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=4, stream=True)
    )
    assert all(chunk.usage is None for chunk in chunks)
    assert all(chunk.choices for chunk in chunks), "no chunk is left empty"


def test_usage_comes_once_where_it_was_asked_for(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=HELLO,
            max_tokens=4,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    told = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert [usage.completion_tokens for usage in told] == [4]


def test_completions(client: OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="once upon a time", max_tokens=6)
    chunks = list(
        client.completions.create(model=MODEL, prompt="once upon a time", max_tokens=6, stream=True)
    )
    assert "".join(c.choices[0].text for c in chunks) == answer.choices[0].text


@pytest.mark.parametrize("prompt", ["text", ["one", "two"], [1, 2, 3], [[1, 2], [3, 4]]])
def test_every_shape_of_prompt(client: OpenAI, prompt: Any) -> None:
    answer = client.completions.create(model=MODEL, prompt=prompt, max_tokens=2)
    nested = isinstance(prompt, list) and not isinstance(prompt[0], int)
    assert len(answer.choices) == (2 if nested else 1)


def test_tools(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, tools=[TOOL], tool_choice="required"
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].type == "function"
    assert calls[0].function.name == "look_up"
    assert answer.choices[0].finish_reason == "tool_calls"


def test_several_choices(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=4, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    chunks = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=4, n=3, stream=True
    )
    seen = {choice.index for chunk in chunks for choice in chunk.choices}
    assert seen == {0, 1, 2}


def test_logprobs(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=3, logprobs=True, top_logprobs=2
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == 3


def test_models(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_an_unknown_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as told:
        client.chat.completions.create(model="gpt", messages=HELLO)
    assert told.value.code == "model_not_found"


def test_the_engines_own_refusal_passes_unchanged(client: OpenAI, engines: list[Engine]) -> None:
    with OpenAI(base_url=f"{engines[0].url}/v1", api_key="x", max_retries=0) as direct:
        bodies: list[object] = []
        for one in (direct, client):
            with pytest.raises(openai.BadRequestError) as told:
                one.chat.completions.create(model=MODEL, messages=HELLO, n=1000)
            bodies.append(told.value.body)
    assert bodies[0] == bodies[1]


def test_the_next_turn_goes_where_the_context_is(client: OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "a task " * 400}]
    homes: list[str | None] = []
    for turn in range(4):
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=messages, max_tokens=8
        )
        answer = raw.parse()
        homes.append(raw.headers.get("x-homeport-endpoint"))
        usage = answer.usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        if turn:
            assert (usage.prompt_tokens_details.cached_tokens or 0) > 600
        messages.append({"role": "assistant", "content": answer.choices[0].message.content or ""})
        messages.append({"role": "user", "content": f"result {turn}"})
    assert len(set(homes)) == 1


def test_a_tenants_key(engines: list[Engine], tmp_path: Any) -> None:
    from homeport.config.key import key_hash

    extra = f"tenants:\n  - {{name: acme, keys: [{{sha256: '{key_hash('right')}'}}]}}\n"
    gateway = Gateway(tmp_path, [engines[0].url], extra)
    try:
        with gateway.client("right") as right:
            assert right.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2).id
        with gateway.client("wrong") as wrong, pytest.raises(openai.AuthenticationError):
            wrong.chat.completions.create(model=MODEL, messages=HELLO)
    finally:
        assert gateway.stop() == 0
