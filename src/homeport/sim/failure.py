"""Faults on demand: what a request header makes an engine do wrong.

| Header | Meaning |
|---|---|
| `x-sim-fail: KIND[;at=N][;cut=N][;delay=MS]` | fail in this way |
| `x-sim-only: PORT[,PORT]` | only on the engines with these ports |
| `x-sim-delay-ms: N` | so much silence before the engine even begins |

| Kind | What happens |
|---|---|
| `status=NNN` | that status and an error body instead of an answer |
| `reset` | the connection is reset, before any byte or after `at` tokens |
| `close` | it is closed in the middle; `cut`: after so many bytes of the next event |
| `garbage` | bytes that are not HTTP, then the end |
| `garbage-body` | a good head, then a body that is neither events nor JSON |
| `silent` | no answer for ever; the slot is held until the client leaves |
| `trickle` | the answer byte by byte, `delay` milliseconds apart (default 1) |
| `stall` | nothing more after `at` tokens; the slot is held until the client leaves |

`at` counts tokens of all choices and is 0 where it is left out; a fault at 0 comes before the
status line. `reset`, `close` and `stall` after tokens show in streams only: a whole body has no
middle.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from homeport.sim.vllm.error import DialectError


class Kind(StrEnum):
    STATUS = "status"
    RESET = "reset"
    CLOSE = "close"
    GARBAGE = "garbage"
    GARBAGE_BODY = "garbage-body"
    SILENT = "silent"
    TRICKLE = "trickle"
    STALL = "stall"


class Failure(Struct, frozen=True):
    kind: Kind
    status: int = 500
    at: int = 0
    cut: int = 0
    delay_ms: int = 1

    @property
    def is_after_tokens(self) -> bool:
        return self.kind in (Kind.RESET, Kind.CLOSE, Kind.STALL) and (self.at > 0 or self.cut > 0)


def wanted_failure(headers: Mapping[str, str], port: int) -> Failure | None:
    """What this engine shall do wrong with this request."""
    text = headers.get("x-sim-fail")
    only = headers.get("x-sim-only")
    if text is None or (only is not None and str(port) not in only.replace(" ", "").split(",")):
        return None
    name, *options = text.replace(" ", "").split(";")
    name, _, status = name.partition("=")
    if name not in list(Kind):
        raise DialectError(f"x-sim-fail: {name!r} is not one of {', '.join(Kind)}")
    numbers = dict(number(option) for option in options)
    return Failure(
        kind=Kind(name),
        status=int(status) if status.isdecimal() else 500,
        at=numbers.get("at", 0),
        cut=numbers.get("cut", 0),
        delay_ms=numbers.get("delay", 1),
    )


def number(option: str) -> tuple[str, int]:
    name, _, value = option.partition("=")
    if name not in ("at", "cut", "delay") or not value.isdecimal():
        raise DialectError(f"x-sim-fail: {option!r} is not at=N, cut=N or delay=MS")
    return name, int(value)


def wanted_delay_s(headers: Mapping[str, str]) -> float:
    text = headers.get("x-sim-delay-ms", "0")
    if not text.isdecimal():
        raise DialectError(f"x-sim-delay-ms: {text!r} is not a whole number")
    return int(text) / 1_000
