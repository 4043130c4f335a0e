"""Agents that use a fleet: closed loops over HTTP, each call measured as its client sees it."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from homeport.sim.workload import Message, Task, tasks

ANSWER_S_MAX = 120.0
BLOCK_TOKENS = 16


class Call(Struct, frozen=True):
    """One call, as the agent saw it. Tokens are those that the engine reported."""

    is_ok: bool
    ttft_s: float
    total_s: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    ideal_cached_tokens: int = 0
    """What one endless cache, shared by all, would have held."""
    endpoint: str | None = None
    problem: str | None = None


class Delta(Struct):
    content: str | None = None


class Choice(Struct):
    delta: Delta


class Details(Struct):
    cached_tokens: int | None = None


class Usage(Struct):
    prompt_tokens: int
    completion_tokens: int = 0
    prompt_tokens_details: Details | None = None


class Chunk(Struct):
    choices: list[Choice] = []
    usage: Usage | None = None
    error: msgspec.Raw | None = None


class CallFailed(Exception):
    """The answer was a refusal, broke, or never came."""


class Answered(Struct, frozen=True):
    text: str
    usage: Usage | None
    ttft_s: float
    endpoint: str | None


async def run_agents(
    base_url: str, model: str, count: int, seed: int, on_call: Callable[[Call], None]
) -> None:
    """`count` agents until cancelled."""
    shared: dict[str, int] = {}
    async with asyncio.TaskGroup() as group:
        for agent in range(count):
            group.create_task(Agent(base_url, model, agent, seed, shared, on_call).run())


class Agent:
    def __init__(
        self,
        base_url: str,
        model: str,
        number: int,
        seed: int,
        shared: dict[str, int],
        on_call: Callable[[Call], None],
    ) -> None:
        parts = urlsplit(base_url)
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 80
        self.model = model
        self.number = number
        self.seed = seed
        self.shared = shared
        """Tokens of each system prompt that somebody has sent before."""
        self.on_call = on_call
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def run(self) -> None:
        try:
            for task in tasks(self.number, self.seed):
                await self.work(task)
        finally:
            self.close()

    async def work(self, task: Task) -> None:
        messages = [Message("system", task.system)]
        held = self.shared.get(task.system, 0)
        self.shared.setdefault(task.system, len(task.system) // 4)
        for turn in task.turns:
            messages.append(Message("user", turn.text))
            answered = await self.call(messages, turn.answer_tokens, held)
            if answered is None:
                return  # a real agent's task would be lost too
            messages.append(Message("assistant", answered.text))
            if answered.usage is not None:
                held = answered.usage.prompt_tokens + answered.usage.completion_tokens
            await asyncio.sleep(turn.tool_s)

    async def call(self, messages: list[Message], tokens: int, held: int) -> Answered | None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                answered = await self.ask(messages, tokens)
        except (OSError, TimeoutError, EOFError, CallFailed, ValueError) as error:
            self.close()
            took = loop.time() - began
            self.on_call(Call(False, took, took, problem=f"{type(error).__name__}: {error}"))
            await asyncio.sleep(0.2)
            return None
        usage = answered.usage
        details = None if usage is None else usage.prompt_tokens_details
        prompt = 0 if usage is None else usage.prompt_tokens
        self.on_call(
            Call(
                is_ok=True,
                ttft_s=answered.ttft_s,
                total_s=loop.time() - began,
                prompt_tokens=prompt,
                cached_tokens=(details.cached_tokens or 0) if details is not None else 0,
                ideal_cached_tokens=min(held, max(0, prompt - 1)) // BLOCK_TOKENS * BLOCK_TOKENS,
                endpoint=answered.endpoint,
            )
        )
        return answered

    async def ask(self, messages: list[Message], tokens: int) -> Answered:
        body = msgspec.json.encode(
            {
                "model": self.model,
                "messages": messages,
                "max_tokens": tokens,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        )
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: {self.host}:{self.port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        self.writer.write(head.encode() + body)
        status, headers = await read_head(self.reader)
        if status != 200:
            length = int(headers.get("content-length", "0"))
            raise CallFailed(f"{status} {(await self.reader.readexactly(length))[:200]!r}")
        return await self.read_events(began, headers)

    async def read_events(self, began: float, headers: dict[str, str]) -> Answered:
        assert self.reader is not None, "connected"
        loop = asyncio.get_running_loop()
        texts: list[str] = []
        usage: Usage | None = None
        ttft_s = 0.0
        rest = b""
        is_done = False
        while (payload := await read_chunk(self.reader)) is not None:
            ttft_s = ttft_s or loop.time() - began
            *events, rest = (rest + payload).split(b"\n\n")
            for event in events:
                data = event.removeprefix(b"data: ")
                if data == b"[DONE]":
                    is_done = True
                    continue
                chunk = msgspec.json.decode(data, type=Chunk)
                if chunk.error is not None:
                    raise CallFailed(bytes(chunk.error).decode())
                texts += [c.delta.content for c in chunk.choices if c.delta.content]
                usage = chunk.usage or usage
        if not is_done:
            raise CallFailed("the stream ended without [DONE]")
        return Answered("".join(texts), usage, ttft_s, headers.get("x-homeport-endpoint"))

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def read_chunk(reader: asyncio.StreamReader) -> bytes | None:
    """The next chunk's payload; None at the end."""
    size = int(await reader.readuntil(b"\r\n"), 16)
    payload = await reader.readexactly(size + 2)
    return payload[:-2] if size else None
