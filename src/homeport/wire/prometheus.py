"""Metrics pages of engines, by search: the few names that are wanted, the rest is not looked at.

A page has some 90 KB, and a thousand engines are asked each second; to parse it whole would take a
hundred times as long. A line that is not a sample of a wanted name is never seen.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

SAMPLE = re.compile(
    rb"""
    (?: [ \t]* \{ ( (?: [^"}\n]++ | "(?:[^"\\\n]++|\\.)*+" )*+ ) \} [ \t]* | [ \t]+ )
    ( [^\s\#]++ )
    """,
    re.VERBOSE,
)
LABEL = re.compile(rb'[ \t]*([^\s=,"]++)[ \t]*=[ \t]*"((?:[^"\\]++|\\.)*+)"[ \t]*,?')
ESCAPED = re.compile(rb"\\(.)")


class Sample(Struct, frozen=True, gc=False):
    """One line: what stands between the braces, as it stands there, and the value."""

    labels: bytes
    value: float

    def label(self, name: bytes) -> bytes | None:
        """The value of one label, None where the sample does not have it."""
        here = 0
        while (label := LABEL.match(self.labels, here)) is not None:
            if label[1] == name:
                return ESCAPED.sub(_unescaped, label[2])
            here = label.end()
        return None


def read(text: bytes, names: Sequence[bytes]) -> dict[bytes, list[Sample]]:
    """The samples of each of `names`, in the order of the page; none where the page has none."""
    return {name: _samples(text, name) for name in names}


def _samples(text: bytes, name: bytes) -> list[Sample]:
    samples: list[Sample] = []
    line_start = b"\n" + name
    end = len(name) if text.startswith(name) else _next(text, line_start, 0)
    while end >= 0:
        if (sample := _sample(text, end)) is not None:
            samples.append(sample)
        end = _next(text, line_start, end)
    return samples


def _next(text: bytes, line_start: bytes, after: int) -> int:
    found = text.find(line_start, after)
    return found if found < 0 else found + len(line_start)


def _sample(text: bytes, name_end: int) -> Sample | None:
    """None where a longer name goes on, or where the line is not a sample."""
    if (found := SAMPLE.match(text, name_end)) is None:
        return None
    try:
        return Sample(found[1] or b"", float(found[2]))
    except ValueError:
        return None


def _unescaped(found: re.Match[bytes]) -> bytes:
    return b"\n" if found[1] == b"n" else found[1]
