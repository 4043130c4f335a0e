"""A router with endpoints that hold so and so much of one long prompt, for measuring decisions."""

from homeport.core.endpoint import EndpointSpec
from homeport.core.event import ConfigChanged, EndpointJoined, Outcome, RequestArrived, RequestEnded
from homeport.core.ids import (
    BlockHash,
    Bytes,
    EndpointId,
    Instant,
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


def one_four_rest(endpoints: int) -> list[float]:
    """One holds all of the prompt, four half, the rest a tenth."""
    return [1.0, *[0.5] * 4, *[0.1] * endpoints][:endpoints]


def all_different(endpoints: int) -> list[float]:
    return [(i + 1) / endpoints for i in range(endpoints)]


class BenchFleet:
    """Each arrival meets the same depths: who holds all wins, and learns nothing new."""

    def __init__(self, depths: list[float], prompt_tokens: int) -> None:
        self.router = Router(POLICIES)
        self.blocks = chain(prompt_tokens)
        self.prompt_tokens = prompt_tokens
        self.now = Instant(0)
        self.count = 0
        self.router.handle(ConfigChanged(self.router.settings), self.now)
        for number, depth in enumerate(depths):
            spec = EndpointSpec(EndpointId(f"e{number}"), MODEL, kv_tokens=Tokens(KV_TOKENS))
            self.router.handle(EndpointJoined(spec), self.now)
            held = self.blocks[: max(1, int(len(self.blocks) * depth))]
            self.router.index.learn(self.router.fleet.slots[spec.id], held)

    def arrival(self) -> RequestArrived:
        """The next request; a first turn, as its newest turn was never seen."""
        self.count += 1
        self.now = Instant(self.now + 10_000)
        turns = (BlockHash(self.count), BlockHash(0))
        size = Bytes(self.prompt_tokens * BYTES_PER_TOKEN)
        return RequestArrived(
            Request(
                id=RequestId(f"r{self.count}"),
                tenant=TenantName("t"),
                model=MODEL,
                prompt=Prompt(self.blocks, turns, size),
                body_bytes=size,
                stream=True,
            )
        )

    def end(self, event: RequestArrived) -> None:
        usage = Usage(Tokens(self.prompt_tokens), Tokens(0), None)
        ended = RequestEnded(event.request.id, Outcome.ANSWERED, usage)
        self.router.handle(ended, self.now)
