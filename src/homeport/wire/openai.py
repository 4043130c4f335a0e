"""Chat completions and completions: the facts of a body, and what an engine is sent in its
place."""

from typing import Literal

import msgspec
from msgspec import Struct

from homeport.core.request import Prompt
from homeport.wire import prompt as prompts
from homeport.wire.body import (
    Array,
    Body,
    BodyError,
    Edit,
    apply,
    chat_body,
    insert,
    kind_of,
    remove,
    replace,
)

Kind = Literal["chat", "completions"]

RESERVED_FIELDS = frozenset(
    (
        "kv_transfer_params",
        "bootstrap_host",
        "bootstrap_port",
        "bootstrap_room",
        "request_id",
        "rid",
        "priority",
        "data_parallel_rank",
        "lora_path",
    )
)
"""Fields between router and engine. From a client they are removed: a wild one can kill one."""

SESSION_FIELDS = ("session_id", "prompt_cache_key")

STREAM_OPTIONS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Facts(Struct, frozen=True, gc=False):
    """What a decision and a relay need of a body."""

    body: Body
    model: str
    prompt: Prompt
    is_stream: bool
    wants_usage: bool
    """The client asked for the usage chunk at the end of its stream."""
    session: str | None
    reserved: tuple[str, ...]
    """Reserved fields that are there and must go."""


def facts_of(kind: Kind, data: bytes, secret: bytes) -> Facts:
    """Scan a body once. Raises BodyError, in words for the client."""
    body, messages = chat_body(data) if kind == "chat" else (Body(data), None)
    model = body.text("model")
    if not model:
        raise BodyError("`model` is missing: name the model that is to answer.", "model")
    is_stream = body.flag("stream")
    salt = body.raw("cache_salt") or b""
    seed = prompts.seed_of(secret, model, salt.decode("utf-8", "replace"))
    return Facts(
        body=body,
        model=model,
        prompt=chat_prompt(body, messages, seed) if kind == "chat" else text_prompt(body, seed),
        is_stream=is_stream,
        wants_usage=is_stream and "stream_options" in body.members and asks_for_usage(body),
        session=session_of(body),
        reserved=reserved_in(body),
    )


def reserved_in(body: Body) -> tuple[str, ...]:
    if RESERVED_FIELDS.isdisjoint(body.members):
        return ()
    return tuple(key for key in body.members if key in RESERVED_FIELDS)


def chat_prompt(body: Body, messages: Array | None, seed: int) -> Prompt:
    """The identity of a conversation; `messages` where they are known already."""
    messages = messages or body.array("messages")
    if messages is None:
        raise BodyError("`messages` is missing: send a list of messages.", "messages")
    tools = body.view("tools")
    if tools is not None and tools[0] not in b"[":
        found = kind_of(bytes(tools[:1]))
        raise BodyError(f"`tools` must be an array, found {found}.", "tools")
    try:
        return prompts.of_chat(messages, tools, seed)
    except msgspec.DecodeError as error:
        raise BodyError(f"`messages` is not valid JSON: {error}.", "messages") from None


def text_prompt(body: Body, seed: int) -> Prompt:
    prompt = body.view("prompt")
    if prompt is None:
        if "prompt_embeds" in body:
            return Prompt()
        raise BodyError("`prompt` is missing: send a text, texts, or token ids.", "prompt")
    if prompt[0] not in b'"[':
        found = kind_of(bytes(prompt[:1]))
        raise BodyError(f"`prompt` must be text or an array, found {found}.", "prompt")
    return prompts.of_text(prompt, seed)


def asks_for_usage(body: Body) -> bool:
    options = stream_options(body)
    return options is not None and bytes(options.get("include_usage", b"")) == b"true"


def stream_options(body: Body) -> dict[str, msgspec.Raw] | None:
    raw = body.raw("stream_options")
    if raw is None:
        return None
    if raw[:1] != b"{":
        found = kind_of(raw)
        raise BodyError(f"`stream_options` must be an object, found {found}.", "stream_options")
    return STREAM_OPTIONS.decode(raw)


def session_of(body: Body) -> str | None:
    """The session key in a body, if it has one. A key of a wrong type is the engine's to judge."""
    for key in SESSION_FIELDS:
        raw = body.raw(key) if key in body.members else None
        if raw is not None and raw[:1] == b'"' and 2 < len(raw) <= 258:
            return raw[1:-1].decode("utf-8", "replace")
    return None


def body_for(facts: Facts, served_as: str, asks_usage: bool) -> bytes:
    """What the engine is sent: its own name of the model, no reserved fields, usage asked for."""
    edits: list[Edit] = remove(facts.body, facts.reserved) if facts.reserved else []
    if served_as != facts.model:
        edits.append(replace(facts.body, "model", msgspec.json.encode(served_as)))
    if asks_usage and facts.is_stream and not facts.wants_usage:
        edits.append(usage_edit(facts.body))
    return apply(facts.body.data, edits)


def usage_edit(body: Body) -> Edit:
    options = stream_options(body)
    if "stream_options" not in body:
        return insert(body, b"stream_options", b'{"include_usage":true}')
    wanted = {**(options or {}), "include_usage": msgspec.Raw(b"true")}
    return replace(body, "stream_options", msgspec.json.encode(wanted))
