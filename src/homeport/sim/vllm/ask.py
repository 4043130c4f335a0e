"""From a body to what the engine has to compute and what will be said.

The simulated model is deterministic, so the whole answer is known when the request arrives; only
the time at which each of its tokens appears is not.
"""

from msgspec import Struct

from homeport.sim import text
from homeport.sim.job import Finish
from homeport.sim.profile import Profile
from homeport.sim.vllm.body import (
    CHOICES_MAX,
    ChatBody,
    CompletionBody,
    Message,
    NamedTool,
    StreamOptions,
    chat_prompt,
    completion_prompts,
    content_text,
    tool_names,
)
from homeport.sim.vllm.error import DialectError

TOP_LOGPROBS_MAX = 20
ARGUMENT_TOKENS_MIN = 6
ARGUMENT_TOKENS_SPAN = 12


class Answer(Struct, frozen=True):
    """One choice: the tokens to generate, and which of their bytes are shown."""

    prompt_tokens: int
    blocks: tuple[int, ...]
    tokens: bytes
    """Four bytes each."""
    shown_from: int
    shown_to: int
    finish: Finish
    tool: str | None = None
    """The name of the tool that the shown bytes are arguments for."""

    @property
    def count(self) -> int:
        return len(self.tokens) // text.TOKEN_BYTES

    def shown(self, first: int, last: int) -> bytes:
        """What tokens `first` to `last`, exclusive, add to what is seen."""
        start = max(first * text.TOKEN_BYTES, self.shown_from)
        return self.tokens[start : min(last * text.TOKEN_BYTES, self.shown_to)]


class Ask(Struct, frozen=True):
    """A generation request, understood."""

    model: str
    is_chat: bool
    is_stream: bool
    options: StreamOptions
    top_logprobs: int | None
    """None: no logprobs."""
    has_token_ids: bool
    prompt_tokens: int
    answers: tuple[Answer, ...]


def chat_ask(body: ChatBody, model: str, profile: Profile) -> Ask:
    prompt, turn, said = chat_turn(body)
    limit = (
        body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    )
    room = checked_room(len(prompt), limit, profile)
    tool = wanted_tool(body)
    answers: list[Answer] = []
    for choice in range(checked_choices(body.n)):
        rest = max(1, text.natural_tokens(turn, choice) - said)
        wanted = wanted_tokens(limit, rest, room, ignores_end=body.ignore_eos is not False)
        if tool is None:
            answer = spoken(prompt, wanted, choice, stops(body.stop))
        else:
            answer = called(prompt, tool, limit or room, choice)
        answers.append(with_blocks(answer, prompt, profile, body.cache_salt or ""))
    return Ask(
        model=model,
        is_chat=True,
        is_stream=body.stream is True,
        options=body.stream_options or StreamOptions(),
        top_logprobs=checked_logprobs(body.top_logprobs or 0) if body.logprobs else None,
        has_token_ids=body.return_token_ids is True,
        prompt_tokens=text.token_count(prompt),
        answers=tuple(answers),
    )


def completion_ask(body: CompletionBody, model: str, profile: Profile) -> Ask:
    prompts = completion_prompts(body)
    answers: list[Answer] = []
    for prompt in prompts:
        if not prompt:
            raise DialectError("prompt is empty: expected at least one token", param="prompt")
        room = checked_room(len(prompt), body.max_tokens, profile)
        for choice in range(checked_choices(body.n)):
            rest = text.natural_tokens(prompt, choice)
            ignores_end = body.ignore_eos is not False
            wanted = wanted_tokens(body.max_tokens, rest, room, ignores_end=ignores_end)
            answer = spoken(prompt, wanted, choice, stops(body.stop))
            answers.append(with_blocks(answer, prompt, profile, body.cache_salt or ""))
    return Ask(
        model=model,
        is_chat=False,
        is_stream=body.stream is True,
        options=body.stream_options or StreamOptions(),
        top_logprobs=None if body.logprobs is None else checked_logprobs(body.logprobs),
        has_token_ids=body.return_token_ids is True,
        prompt_tokens=sum(text.token_count(prompt) for prompt in prompts),
        answers=tuple(answers),
    )


def chat_turn(body: ChatBody) -> tuple[bytes, bytes, int]:
    """The prompt, the prompt at which the answer's turn began, and the tokens said in it so far."""
    if not body.continue_final_message:
        prompt = chat_prompt(body.messages, body.tools) + text.opened("assistant")
        return prompt, prompt, 0
    if not body.messages or body.messages[-1].role != "assistant":
        raise DialectError("continue_final_message needs a last message of the assistant")
    *before, last = body.messages
    turn = (chat_prompt(before, body.tools) if before else b"") + text.opened("assistant")
    said = text.padded(content_text(last))
    return turn + said, turn, text.token_count(said)


def checked_room(prompt_bytes: int, limit: int | None, profile: Profile) -> int:
    """Tokens that fit after the prompt."""
    prompt_tokens = -(-prompt_bytes // text.TOKEN_BYTES)
    if limit is not None and limit < 1:
        raise DialectError(f"max_tokens is {limit}: expected at least 1", param="max_tokens")
    longest = profile.context_tokens_max
    if prompt_tokens + (limit or 1) > longest:
        raise DialectError(
            f"The maximum context length is {longest} tokens: the prompt has {prompt_tokens} and "
            f"{limit or 1} more were asked for. Send a shorter prompt or ask for fewer tokens.",
            param="input_tokens",
        )
    return longest - prompt_tokens


def checked_choices(count: int | None) -> int:
    if count is None:
        return 1
    if not 1 <= count <= CHOICES_MAX:
        raise DialectError(f"n is {count}: expected 1 to {CHOICES_MAX}", param="n")
    return count


def checked_logprobs(count: int) -> int:
    if not 0 <= count <= TOP_LOGPROBS_MAX:
        raise DialectError(f"{count} logprobs: expected 0 to {TOP_LOGPROBS_MAX}", param="logprobs")
    return count


def stops(stop: str | list[str] | None) -> list[bytes]:
    if stop is None:
        return []
    return [item.encode() for item in ([stop] if isinstance(stop, str) else stop) if item]


def wanted_tokens(
    limit: int | None, rest: int, room: int, *, ignores_end: bool
) -> tuple[int, Finish]:
    """With a limit exactly so many, unless the client says that the end of a turn counts."""
    if limit is None or (not ignores_end and rest <= limit):
        return (rest, Finish.STOP) if rest <= room else (room, Finish.LENGTH)
    return limit, Finish.LENGTH


def wanted_tool(body: ChatBody) -> str | None:
    """The tool to call: told to, or the last user message speaks of tools and none has answered."""
    names = tool_names(body.tools)
    if isinstance(body.tool_choice, NamedTool):
        name = body.tool_choice.function.name
        if name not in names:
            raise DialectError(f"tool_choice names {name!r}, not one of tools", param="tool_choice")
        return name
    if not names or body.tool_choice == "none" or body.continue_final_message:
        return None
    is_asked = body.tool_choice == "required" or speaks_of_tools(body.messages)
    return names[0] if is_asked else None


def speaks_of_tools(messages: list[Message]) -> bool:
    users = [message for message in messages if message.role == "user"]
    if not users or messages[-1].role == "tool":
        return False
    return b"tool" in content_text(users[-1]).lower()


def spoken(prompt: bytes, wanted: tuple[int, Finish], choice: int, stop: list[bytes]) -> Answer:
    """Words, up to the first stop string."""
    count, finish = wanted
    words = text.continued(prompt, count, choice)
    found = [(at, at + len(s)) for s in stop if (at := words.find(s)) >= 0]
    if not found:
        return Answer(0, (), words, 0, len(words), finish)
    shown_to, _ = min(found)
    end = min(end for at, end in found if at == shown_to)
    return Answer(0, (), words[: text.token_count(words[:end]) * 4], 0, shown_to, Finish.STOP)


def called(prompt: bytes, tool: str, limit: int, choice: int) -> Answer:
    """A call of the tool, cut where the limit is."""
    count = ARGUMENT_TOKENS_MIN + text.natural_tokens(prompt, choice) % ARGUMENT_TOKENS_SPAN
    words = text.continued(prompt, count, choice).decode().strip()
    arguments = f'{{"input": "{words}"}}'
    tokens, start = text.tool_call_text(tool, arguments)
    cut = tokens[: limit * text.TOKEN_BYTES]
    finish = Finish.STOP if cut == tokens else Finish.LENGTH
    end = min(start + len(arguments), len(cut))
    return Answer(0, (), cut, min(start, end), end, finish, tool)


def with_blocks(answer: Answer, prompt: bytes, profile: Profile, salt: str) -> Answer:
    """The answer with the prompt's size and the names of all its blocks."""
    return Answer(
        prompt_tokens=text.token_count(prompt),
        blocks=text.block_names(prompt + answer.tokens, profile.block_tokens, salt),
        tokens=answer.tokens,
        shown_from=answer.shown_from,
        shown_to=answer.shown_to,
        finish=answer.finish,
        tool=answer.tool,
    )
