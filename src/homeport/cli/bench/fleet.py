"""A router with endpoints that hold so and so much of one long prompt, for measuring decisions."""

from array import array
from bisect import bisect_right
from collections.abc import Callable

from homeport.core.command import Command, Dispatch
from homeport.core.endpoint import EndpointSpec
from homeport.core.event import (
    ConfigChanged,
    EndpointJoined,
    Outcome,
    RequestArrived,
    RequestEnded,
    Settings,
)
from homeport.core.ids import (
    BlockHash,
    Bytes,
    EndpointId,
    Instant,
    Micros,
    ModelName,
    RequestId,
    TenantName,
    Tokens,
)
from homeport.core.prefix import BLOCK_ENDS
from homeport.core.request import Prompt, Request, Usage
from homeport.core.router import Router
from homeport.plugins.registry import POLICIES

MODEL = ModelName("bench")
BYTES_PER_TOKEN = 4
KV_TOKENS = 10_000_000


def chain(prompt_tokens: int) -> tuple[BlockHash, ...]:
    """The blocks of a prompt of so many tokens; any distinct numbers will do."""
    size = prompt_tokens * BYTES_PER_TOKEN
    count = sum(1 for end in BLOCK_ENDS if end <= size)
    return tuple(BlockHash((i + 1) * 0x9E3779B97F4A7C15 % 2**64) for i in range(count))


def one_four_rest(endpoints: int, blocks: int) -> list[int]:
    """Blocks held: one holds all of the prompt, four half its text, the rest a tenth."""
    size = BLOCK_ENDS[blocks - 1]
    half, tenth = bisect_right(BLOCK_ENDS, size / 2), bisect_right(BLOCK_ENDS, size / 10)
    return [blocks, *[half] * 4, *[tenth] * endpoints][:endpoints]


def all_different(endpoints: int, blocks: int) -> list[int]:
    """Blocks held: no two the same number, the last one all."""
    assert endpoints <= blocks, f"{blocks} blocks have no {endpoints} depths"
    return [blocks * (i + 1) // endpoints for i in range(endpoints)]


class BenchFleet:
    """Each arrival is a first turn and meets the same depths.

    A session is forgotten before the next one arrives: sessions that stayed would fill the endpoint
    that holds all, the next would go elsewhere, and soon everybody would hold all.
    """

    def __init__(
        self, shape: Callable[[int, int], list[int]], endpoints: int, prompt_tokens: int
    ) -> None:
        self.router = Router(POLICIES)
        self.blocks = array("Q", chain(prompt_tokens))
        self.prompt_tokens = prompt_tokens
        self.now = Instant(0)
        self.count = 0
        self.router.handle(ConfigChanged(Settings(session_hold=Micros(0))), self.now)
        depths = shape(endpoints, len(self.blocks))
        for number, depth in enumerate(depths):
            spec = EndpointSpec(EndpointId(f"e{number}"), MODEL, kv_tokens=Tokens(KV_TOKENS))
            self.router.handle(EndpointJoined(spec), self.now)
            slot = self.router.fleet.slots[spec.id]
            self.router.index.learn(slot, self.prompt_blocks()[:depth])
        self.holder = EndpointId(f"e{depths.index(len(self.blocks))}")

    def prompt_blocks(self) -> tuple[BlockHash, ...]:
        """Equal numbers, but objects of their own, as a request's hashes are."""
        return tuple(map(BlockHash, self.blocks))

    def arrival(self) -> RequestArrived:
        self.count += 1
        self.now = Instant(self.now + 10_000)
        size = Bytes(self.prompt_tokens * BYTES_PER_TOKEN)
        turns = (BlockHash(self.count), BlockHash(0))
        return RequestArrived(
            Request(
                id=RequestId(f"r{self.count}"),
                tenant=TenantName("t"),
                model=MODEL,
                prompt=Prompt(self.prompt_blocks(), turns, size),
                body_bytes=size,
                stream=True,
            )
        )

    def end(self, event: RequestArrived, commands: list[Command]) -> None:
        """The answer is there; who holds all must have got the request, or nothing is measured."""
        assert isinstance(commands[0], Dispatch), "an idle fleet takes every request"
        assert commands[0].endpoint == self.holder, f"{commands[0].endpoint} won"
        usage = Usage(Tokens(self.prompt_tokens), Tokens(0), None)
        ended = RequestEnded(event.request.id, Outcome.ANSWERED, usage)
        self.router.handle(ended, self.now)
