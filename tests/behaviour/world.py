"""A router and the few words in which its behaviour is told."""

from itertools import count

from homeport.core.command import Command, Dispatch, Reject
from homeport.core.decision import Decision
from homeport.core.endpoint import EndpointSpec, Sample
from homeport.core.event import (
    ConfigChanged,
    EndpointJoined,
    EndpointLeft,
    EndpointProbed,
    EndpointSampled,
    Event,
    Failure,
    FirstByteSent,
    LegEnded,
    Outcome,
    RequestArrived,
    RequestEnded,
    Settings,
    TimerFired,
)
from homeport.core.ids import (
    BlockHash,
    Bytes,
    EndpointId,
    Instant,
    ModelName,
    RequestId,
    SessionId,
    TenantName,
    Tokens,
)
from homeport.core.prefix import BLOCK_ENDS
from homeport.core.record import Record
from homeport.core.request import Prompt, Request, Usage
from homeport.core.router import Router
from homeport.plugins.registry import POLICIES

BYTES_PER_TOKEN = 4


def prompt(*parts: str, part_bytes: int = 4_096) -> Prompt:
    """A conversation whose parts are messages of `part_bytes` each, known by their names.

    Two prompts share the blocks of the parts that they begin with in common.
    """
    size = len(parts) * part_bytes
    blocks: list[BlockHash] = []
    begin, chain = 0, 17
    for end in BLOCK_ENDS:
        if end > size:
            break
        spanned = parts[begin // part_bytes : -(-end // part_bytes)]
        chain = mixed(chain, *spanned)
        blocks.append(BlockHash(chain))
        begin = end
    turns = tuple(BlockHash(mixed(99, *parts[:last])) for last in range(len(parts), 0, -1))
    return Prompt(tuple(blocks), turns, Bytes(size))


def mixed(seed: int, *names: str) -> int:
    """A stand-in for the hash: any function of the names will do."""
    value = seed
    for name in names:
        for byte in name.encode():
            value = (value * 1_099_511_628_211 + byte + 1) % 2**64
        value = (value * 31 + 7) % 2**64
    return value


class World:
    """Endpoints `a`, `b`, ... of the model `m`, and a clock that only the test moves."""

    def __init__(self, *endpoints: str, policy: str = "homeport", **settings: int) -> None:
        self.router = Router(POLICIES)
        self.now = Instant(0)
        self.numbers = count(1)
        self.events: list[tuple[Event, Instant]] = []
        self.feed(ConfigChanged(Settings(policy=policy, **settings)))  # pyright: ignore
        for name in endpoints:
            self.join(name)

    def feed(self, event: Event) -> list[Command]:
        self.events.append((event, self.now))
        commands = self.router.handle(event, self.now)
        self.router.check()
        return commands

    def wait(self, seconds: float) -> None:
        self.now = Instant(self.now + int(seconds * 1_000_000))

    def join(self, name: str, model: str = "m", running_max: int | None = None) -> list[Command]:
        spec = EndpointSpec(EndpointId(name), ModelName(model), running_max=running_max)
        return self.feed(EndpointJoined(spec))

    def leave(self, name: str) -> list[Command]:
        return self.feed(EndpointLeft(EndpointId(name)))

    def probe(self, name: str, healthy: bool) -> list[Command]:
        return self.feed(EndpointProbed(EndpointId(name), healthy))

    def sample(self, name: str, **figures: int) -> list[Command]:
        return self.feed(EndpointSampled(EndpointId(name), Sample(**figures)))  # pyright: ignore

    def request(
        self,
        said: Prompt,
        session: str | None = None,
        tenant: str = "t",
        model: str = "m",
        body_bytes: int = 1_000,
    ) -> Request:
        return Request(
            id=RequestId(f"r{next(self.numbers)}"),
            tenant=TenantName(tenant),
            model=ModelName(model),
            prompt=said,
            session=None if session is None else SessionId(session),
            body_bytes=Bytes(body_bytes),
        )

    def arrive(self, request: Request) -> list[Command]:
        return self.feed(RequestArrived(request))

    def first_byte(self, request: Request) -> None:
        assert self.feed(FirstByteSent(request.id)) == []

    def end(
        self,
        request: Request,
        output: int = 10,
        cached: int | None = None,
        outcome: Outcome = Outcome.ANSWERED,
    ) -> list[Command]:
        prompt_tokens = request.prompt.text_bytes // BYTES_PER_TOKEN
        told = None if cached is None else Tokens(cached)
        usage = Usage(Tokens(prompt_tokens), Tokens(output), told)
        return self.feed(RequestEnded(request.id, outcome, usage))

    def cancel(self, request: Request) -> list[Command]:
        return self.feed(RequestEnded(request.id, Outcome.CANCELLED))

    def fail(self, request: Request, failure: Failure = Failure.RESET) -> list[Command]:
        return self.feed(LegEnded(request.id, failure))

    def fire(self) -> list[Command]:
        return self.feed(TimerFired())

    def serve(self, request: Request, cached: int | None = None) -> str:
        """From arrival to the end of the answer; where it was served."""
        where = placed(self.arrive(request))
        self.wait(0.5)
        self.first_byte(request)
        self.wait(0.5)
        self.end(request, cached=cached)
        return where


def decided(commands: list[Command]) -> Decision:
    """The one decision among the commands."""
    decisions = [c.decision for c in commands if isinstance(c, Dispatch)]
    assert len(decisions) == 1, commands
    return decisions[0]


def placed(commands: list[Command]) -> str:
    return decided(commands).winner


def refused(commands: list[Command]) -> Reject:
    rejects = [c for c in commands if isinstance(c, Reject)]
    assert len(rejects) == 1, commands
    return rejects[0]


def records(world: World) -> list[Record]:
    """What a driver would have recorded of this world."""
    router = Router(POLICIES)
    return [
        Record(number, now, event, router.handle(event, now))
        for number, (event, now) in enumerate(world.events, 1)
    ]
