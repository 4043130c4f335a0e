"""What goes into a simulated engine and what comes out."""

from enum import StrEnum
from typing import NewType

from msgspec import Struct

JobId = NewType("JobId", str)


class Finish(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class Job(Struct, frozen=True):
    """One sequence to compute. How much it will generate is known in advance."""

    id: JobId
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    """Chain value of each full block of the prompt and the answer after it, from the first on.
    Each stands for the block and all before it. A block past the end is nobody else's."""
    finish: Finish = Finish.LENGTH


class Output(Struct, frozen=True):
    """What a step gave to one job."""

    job_id: JobId
    tokens: int
    is_first: bool
    cached_tokens: int
    """Prompt tokens that were in the cache when the job was first admitted."""
    finish: Finish | None = None


class Stats(Struct, frozen=True):
    """What the engine would tell of itself."""

    running: int
    waiting: int
    kv_usage: float
    """Share of the blocks that running sequences hold."""
    cached_blocks: int
    """Blocks with contents, held or not."""
    prefix_queries: int
    """Prompt tokens looked up."""
    prefix_hits: int
    preemptions: int
    prompt_tokens: int
    output_tokens: int
    stopped: int
    cut: int
    """Finished for length."""
    aborted: int
    busy_us: int
