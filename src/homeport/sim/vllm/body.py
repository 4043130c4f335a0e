"""Request bodies as vLLM takes them, and how their prompts read."""

from typing import TypeVar

import msgspec
from msgspec import Struct

from homeport.sim import text
from homeport.sim.vllm.error import DialectError

Body = TypeVar("Body")

CHOICES_MAX = 128


class StreamOptions(Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Part(Struct):
    """A piece of a message; what is not text counts by its bytes."""

    type: str
    text: str | None = None
    image_url: object = None


class Function(Struct):
    name: str
    arguments: str = ""


class ToolCall(Struct):
    function: Function


class Message(Struct):
    role: str
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None


class ToolFunction(Struct):
    name: str


class Tool(Struct):
    function: ToolFunction


class NamedTool(Struct):
    function: ToolFunction


class ChatBody(Struct):
    """`/v1/chat/completions`; fields that change nothing here are let pass."""

    messages: list[Message]
    model: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: object = None
    tool_choice: str | NamedTool | None = None
    ignore_eos: bool | None = None
    continue_final_message: bool = False
    return_token_ids: bool | None = None
    cache_salt: str | None = None
    seed: int | None = None


class CompletionBody(Struct):
    """`/v1/completions`."""

    prompt: str | list[str | int | list[int]]
    """Text, texts, token ids, or lists of them."""
    model: str | None = None
    max_tokens: int | None = 16
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    logprobs: int | None = None
    ignore_eos: bool | None = None
    return_token_ids: bool | None = None
    cache_salt: str | None = None
    seed: int | None = None


class TokenizeBody(Struct):
    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    tools: object = None


class DetokenizeBody(Struct):
    tokens: list[int]
    model: str | None = None


def decoded(kind: type[Body], raw: bytes) -> Body:
    """Bytes to a typed body, or the client's mistake."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise DialectError(f"{error} (in the request body)") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DialectError(f"The request body is not valid JSON: {error}") from error


def chat_prompt(messages: list[Message], tools: object) -> bytes:
    """The conversation as the model reads it: system and tools first. Not open for an answer."""
    if not messages:
        raise DialectError("messages is empty: expected at least one", param="messages")
    has_system = messages[0].role == "system"
    rest = messages[1:] if has_system else messages
    parts: list[bytes] = []
    if has_system or tools is not None:
        body = content_text(messages[0]) if has_system else b""
        parts += [text.opened("system"), text.closed(body + tools_text(tools))]
    for message in rest:
        parts += [text.opened(message.role), text.closed(message_text(message))]
    return b"".join(parts)


def message_text(message: Message) -> bytes:
    calls = message.tool_calls or []
    texts = [text.tool_call_text(c.function.name, c.function.arguments)[0] for c in calls]
    return content_text(message) + b"".join(texts)


def content_text(message: Message) -> bytes:
    if message.content is None:
        return b""
    if isinstance(message.content, str):
        return message.content.encode()
    return b"".join(part_text(part) for part in message.content)


def part_text(part: Part) -> bytes:
    if part.text is not None:
        return part.text.encode()
    return msgspec.json.encode(part.image_url) if part.image_url is not None else b""


def tools_text(tools: object) -> bytes:
    """The same tools read the same, however their JSON was laid out."""
    if tools is None:
        return b""
    return b"\n# Tools\n" + msgspec.json.encode(tools)


def tool_names(tools: object) -> list[str]:
    if tools is None:
        return []
    try:
        return [tool.function.name for tool in msgspec.convert(tools, list[Tool])]
    except msgspec.ValidationError as error:
        raise DialectError(f"{error} (in tools)", param="tools") from error


def completion_prompts(body: CompletionBody) -> list[bytes]:
    """Each prompt's bytes, in whole tokens."""
    prompt = body.prompt
    if isinstance(prompt, str):
        return [text.padded(prompt.encode())]
    if not prompt:
        raise DialectError("prompt is empty: expected text or token ids", param="prompt")
    ids = [item for item in prompt if isinstance(item, int)]
    if len(ids) == len(prompt):
        return [text.from_token_ids(ids)]
    if ids:
        raise DialectError("prompt mixes token ids with texts or lists", param="prompt")
    return [
        text.padded(item.encode()) if isinstance(item, str) else text.from_token_ids(item)
        for item in prompt
        if not isinstance(item, int)
    ]
