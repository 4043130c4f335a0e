"""What can be wrong with a config: where it is, what was expected, and what to do."""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands in the document: keys and positions in lists."""


class ConfigProblem(Struct, frozen=True):
    """One thing to correct. The key of the whole document is the empty path."""

    line: int | None
    key: str
    message: str
    hint: str | None = None


class ConfigError(Exception):
    """The file is at fault; carries every problem that was found."""

    def __init__(self, errors: Iterable[ConfigProblem], name: str = "config") -> None:
        self.errors = tuple(errors)
        self.name = name
        super().__init__(self.describe())

    def describe(self) -> str:
        """A line for each problem, the way compilers write them: `name:12: key: message (hint)`."""
        return "\n".join(_problem_line(self.name, problem) for problem in self.errors)


def dotted(path: Path) -> str:
    """A path as people write it: `engines.0.model`."""
    return ".".join(str(part) for part in path)


def _problem_line(name: str, problem: ConfigProblem) -> str:
    place = name if problem.line is None else f"{name}:{problem.line}"
    subject = f"{problem.key}: " if problem.key else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{place}: {subject}{problem.message}{hint}"
