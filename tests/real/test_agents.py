"""Agents of growing context on two real engines: where turns land, and whether figures agree."""

import json
import urllib.request
from itertools import pairwise
from typing import Any

import msgspec
from openai import OpenAI
from processes import Gateway

MODEL = "tiny"
SESSIONS = 8
TURNS = 6
BLOCK_TOKENS = 32
FIRST_CHARS = 5_000
TURN_CHARS = 1_500


class Turn(msgspec.Struct):
    """What came of one call."""

    endpoint: str
    messages: list[dict[str, str]]
    answer: str
    prompt_tokens: int
    cached_tokens: int
    predicted_tokens: int


def ask(client: OpenAI, messages: list[dict[str, str]]) -> Any:
    many: Any = messages
    return client.chat.completions.with_raw_response.create(
        model=MODEL, messages=many, max_tokens=16, temperature=0
    )


def take_turn(gateway: Gateway, messages: list[dict[str, str]]) -> Turn:
    raw = ask(gateway.client(), messages)
    answer = raw.parse()
    request_id = raw.headers["x-homeport-request-id"]
    with urllib.request.urlopen(f"{gateway.admin}/v1/explain/{request_id}") as page:
        story = json.load(page)
    details = answer.usage.prompt_tokens_details
    return Turn(
        endpoint=raw.headers["x-homeport-endpoint"],
        messages=[dict(message) for message in messages],
        answer=answer.choices[0].message.content or "",
        prompt_tokens=answer.usage.prompt_tokens,
        cached_tokens=(details.cached_tokens if details else 0) or 0,
        predicted_tokens=story["decision"]["predicted_cached_tokens"],
    )


def conversations(gateway: Gateway, text: str) -> list[list[Turn]]:
    """Two sessions at a time take their turns in turn; nothing but their content names them."""
    taken: list[list[Turn]] = []
    for first in range(0, SESSIONS, 2):
        pair: list[list[Turn]] = [[], []]
        talks: list[list[dict[str, str]]] = []
        for session in (first, first + 1):
            begin = session * (len(text) // SESSIONS)
            said = f"You are agent {session}. " + text[begin : begin + FIRST_CHARS]
            talks.append([{"role": "system", "content": said}])
        for number in range(TURNS):
            for session, messages in enumerate(talks):
                begin = (first + session) * 977 + number * TURN_CHARS
                said = f"Step {number}. " + text[begin : begin + TURN_CHARS]
                messages.append({"role": "user", "content": said})
                turn = take_turn(gateway, messages)
                messages.append({"role": "assistant", "content": turn.answer})
                pair[session].append(turn)
        taken += pair
    return taken


def test_turns_stay_where_their_context_is(
    gateway: Gateway, engines: list[str], agent_text: str
) -> None:
    taken = conversations(gateway, agent_text)
    later = [(before, turn) for turns in taken for before, turn in pairwise(turns)]
    assert all(turn.endpoint == before.endpoint for before, turn in later)
    assert {turns[0].endpoint for turns in taken} == set(engines), "both engines have work"
    possible = sum(before.prompt_tokens // BLOCK_TOKENS * BLOCK_TOKENS for before, _ in later)
    reported = sum(turn.cached_tokens for _, turn in later)
    predicted = sum(turn.predicted_tokens for _, turn in later)
    longest = max(turn.prompt_tokens for _, turn in later)
    print(
        f"{len(later)} later turns, all at home; longest prompt {longest} tokens; cached tokens: "
        f"possible {possible}, reported {reported}, predicted {predicted}"
    )
    assert reported >= 0.95 * possible
    assert abs(predicted - reported) < 0.05 * reported
    assert 2_000 < longest < 8_000, "contexts as agents have them"
    # Asked directly, the engine that answered says the same again.
    for turns in taken[:2]:
        for turn in turns:
            direct = OpenAI(base_url=f"{turn.endpoint}/v1", api_key="none", max_retries=0)
            assert ask(direct, turn.messages).parse().choices[0].message.content == turn.answer


def test_a_stream_is_what_the_engine_streams(gateway: Gateway, engines: list[str]) -> None:
    many: Any = [{"role": "user", "content": "Say something."}]

    def streamed(url: str) -> tuple[str, int]:
        client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        text, usages = "", 0
        with client.chat.completions.create(
            model=MODEL, messages=many, max_tokens=24, temperature=0, stream=True
        ) as chunks:
            for chunk in chunks:
                usages += chunk.usage is not None
                text += "".join(choice.delta.content or "" for choice in chunk.choices)
        return text, usages

    assert streamed(gateway.url) == streamed(engines[0])
    assert [model.id for model in gateway.client().models.list()] == [MODEL]
