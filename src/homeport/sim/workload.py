"""What agents ask: tasks of many calls, each call the whole conversation again and a little more.

Pure. An agent has a kind, which fixes its system prompt, and a task of its own. After each answer
comes a tool's result; the time between is the tool's. All follows from the seed.
"""

from collections.abc import Iterator

import xxhash
from msgspec import Struct

CALLS_PER_TASK = 40
SYSTEM_BYTES = 6_000
TASK_BYTES = 1_500
RESULT_BYTES_MIN = 200
RESULT_BYTES_MAX = 4_000
TOOL_S_MIN = 0.05
TOOL_S_MAX = 0.6
ANSWER_TOKENS_MIN = 16
ANSWER_TOKENS_MAX = 96
KINDS = 4

WORDS = (
    *("read", "the", "file", "of", "error", "value", "returns", "test", "line", "expected"),
    *("function", "and", "config", "module", "fails", "with", "import", "path", "call", "result"),
)


class Message(Struct, frozen=True):
    role: str
    content: str


class Turn(Struct, frozen=True):
    """One call of a task, but for the answers so far, which only the caller knows."""

    text: str
    """What the user or the tool says now."""
    answer_tokens: int
    tool_s: float
    """How long the tool takes after the answer."""


class Task(Struct, frozen=True):
    name: str
    system: str
    turns: tuple[Turn, ...]


def tasks(agent: int, seed: int, calls: int = CALLS_PER_TASK) -> Iterator[Task]:
    """The tasks of one agent, one after another, without end."""
    number = 0
    while True:
        name = f"{seed}/{agent}/{number}"
        kind = f"{seed}/kind/{agent % KINDS}"
        yield Task(
            name=name,
            system=f"You are a coding agent. {prose(kind, SYSTEM_BYTES)}",
            turns=tuple(turn_of(f"{name}/{call}", is_first=call == 0) for call in range(calls)),
        )
        number += 1


def turn_of(name: str, *, is_first: bool) -> Turn:
    size = TASK_BYTES if is_first else between(name, 0, RESULT_BYTES_MIN, RESULT_BYTES_MAX)
    return Turn(
        text=prose(name, size),
        answer_tokens=between(name, 1, ANSWER_TOKENS_MIN, ANSWER_TOKENS_MAX),
        tool_s=TOOL_S_MIN + (TOOL_S_MAX - TOOL_S_MIN) * between(name, 2, 0, 1_000) / 1_000,
    )


def between(name: str, what: int, low: int, high: int) -> int:
    """A whole number from low to high, always the same for one name."""
    return low + xxhash.xxh3_64_intdigest(name.encode(), what) % (high - low + 1)


def prose(name: str, size: int) -> str:
    """Text of about `size` bytes that no other name has."""
    state = xxhash.xxh3_64_intdigest(name.encode(), 99)
    words: list[str] = []
    length = 0
    while length < size:
        state = xxhash.xxh3_64_intdigest(state.to_bytes(8, "big"))
        word = f"{WORDS[state % len(WORDS)]}{state >> 32 & 0xFFF:x}"
        words.append(word)
        length += len(word) + 1
    return " ".join(words)
