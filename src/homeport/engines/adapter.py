"""What Homeport must know of one kind of engine: its paths, its metrics, what its failures mean."""

from enum import Enum
from typing import Protocol

from msgspec import Struct

from homeport.core.endpoint import Sample
from homeport.core.ids import Tokens


class EngineReading(Struct, frozen=True, gc=False):
    """What a metrics page says, summed over data-parallel ranks. None where it does not say."""

    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    """Share of the cache that running requests hold, 0 to 1. What is only kept does not count."""
    kv_tokens: Tokens | None = None
    block_tokens: Tokens | None = None
    prefix_hits: Tokens | None = None
    prefix_queries: Tokens | None = None
    preemptions: int | None = None

    def sample(self) -> Sample:
        """The part of it that decisions use."""
        return Sample(self.running, self.waiting, self.kv_usage, self.kv_tokens, self.block_tokens)


class Verdict(Enum):
    """What the status of an engine's answer says about the engine."""

    PASS = "pass"
    """The engine's own word: it goes to the client as it is."""
    BUSY = "busy"
    """The engine works but cannot take this now: try elsewhere, no mark against it."""
    FAILED = "failed"
    """Counts against the endpoint; before the first byte another one may be tried."""


class Dialect(Protocol):
    """One kind of engine."""

    @property
    def name(self) -> str:
        """As config calls it."""
        ...

    @property
    def health_path(self) -> str:
        """Answers 200 when the engine can serve."""
        ...

    @property
    def metrics_path(self) -> str | None:
        """None where there are no metrics to read."""
        ...

    def read_metrics(self, text: bytes) -> EngineReading:
        """A page of `metrics_path`. Never raises; what it cannot read is None."""
        ...

    def verdict(self, status: int) -> Verdict:
        """What the status of an answer says about the engine."""
        ...

    def must_ask_usage(self, path: str) -> bool:
        """Whether a stream of this path has usage only where `stream_options` asks for it."""
        ...


def verdict_of(status: int) -> Verdict:
    """The verdict of every dialect that has no habits of its own.

    A 4xx is the client's mistake, 429 included: an engine that limits its callers has said so, and
    its word is passed on. A 503 is what engines say while they warm up, sleep or have a full queue;
    whether such an engine is ill is for the health probe to find.
    """
    if 100 <= status < 500:
        return Verdict.PASS
    return Verdict.BUSY if status == 503 else Verdict.FAILED


STREAMS_WITHOUT_USAGE = frozenset(("/v1/chat/completions", "/v1/completions"))
"""OpenAI's API sends usage in these streams when asked; Responses and Messages always send it."""
