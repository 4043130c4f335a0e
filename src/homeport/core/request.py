"""What a decision needs to know of a request: a few facts, never its body."""

from msgspec import Struct

from homeport.core.ids import BlockHash, Bytes, ModelName, RequestId, SessionId, TenantName, Tokens


class Prompt(Struct, frozen=True, gc=False, array_like=True):
    """Who a prompt is: a chain of hashes over its text, in the order in which the model reads it.

    `blocks[i]` stands for all text up to `prefix.BLOCK_ENDS[i]` bytes; a last, unfinished block
    has no hash. `turns` are chain values at the exact ends of the last messages, newest first: an
    earlier prompt whose newest turn is among them was extended by this one.
    """

    blocks: tuple[BlockHash, ...] = ()
    turns: tuple[BlockHash, ...] = ()
    text_bytes: Bytes = Bytes(0)


class Request(Struct, frozen=True, gc=False, array_like=True):
    """One call for an answer. `body_bytes` is what it holds of memory while it waits."""

    id: RequestId
    tenant: TenantName
    model: ModelName
    prompt: Prompt
    session: SessionId | None = None
    body_bytes: Bytes = Bytes(0)
    stream: bool = False


class Usage(Struct, frozen=True, gc=False, array_like=True):
    """What an engine reported of one answer. `cached_tokens` is None where it does not tell."""

    prompt_tokens: Tokens
    output_tokens: Tokens
    cached_tokens: Tokens | None = None
