"""Text to plain values, and the line of each.

YAML is composed to marked nodes and no further: which plain words are numbers or booleans is
decided here, because YAML 1.1 reads `no` as false, `1:30` as ninety and `010` as eight. Here `true`
and `false` are booleans, `null`, `~` and nothing are null, decimal numbers are numbers, and all
else is text. JSON is read the same way.

What can be reported beside other problems (a key given twice, a variable that is not set) is
collected; what makes the rest unreadable ends the reading.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from homeport.config.problem import ConfigError, ConfigProblem, Path, dotted

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"

TEXT_CHARS_MAX = 4 * 1024 * 1024
DEPTH_MAX = 32
VALUES_MAX = 200_000
"""Counted with aliases written out: ten short lines of aliases can stand for billions of values."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_VARIABLE = re.compile(r"\$\{([^}]*)(\}?)")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_STANDARD_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map")}


@dataclass(slots=True)
class Source:
    """A document that could be read, with what was odd about it on the way."""

    value: Plain = None
    lines: dict[Path, int] = field(default_factory=dict[Path, int])
    problems: list[ConfigProblem] = field(default_factory=list[ConfigProblem])
    unread: set[Path] = field(default_factory=set[Path])
    """Values that have a problem already and need no second one."""
    expanded: set[Path] = field(default_factory=set[Path])
    """Values that come from variables, and may be secrets."""

    def line(self, path: Path) -> int:
        """The line of the value, or of the nearest thing around it that was written."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: Path, message: str, hint: str | None = None) -> ConfigProblem:
        """A problem with the value at the path."""
        return ConfigProblem(self.line(path), dotted(path), message, hint)


def read(text: str, environ: Mapping[str, str]) -> Source:
    """The document's values with `${NAME}` replaced; raises ConfigError if it makes no sense."""
    if len(text) > TEXT_CHARS_MAX:
        raise _error(None, f"expected at most {TEXT_CHARS_MAX} characters, found {len(text)}")
    node = _compose(text)
    if node is None:
        raise _error(1, "expected a config, found nothing", "begin with `kind: Fleet`")
    reader = _Reader(environ)
    reader.source.value = reader.read(node, ())
    return reader.source


def _compose(text: str) -> yaml.Node | None:
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML may not
    try:
        loader = _Composer(text)
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        about = ", ".join(part for part in (error.context, error.problem) if part)
        raise _error(mark and mark.line + 1, f"not YAML: {about}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        about = str(error).splitlines()[0]
        raise _error(None, f"not YAML: {about}", "save the file as plain UTF-8 text") from None


class _Composer(yaml.SafeLoader):
    """Composes nodes, resolves no words, and does not descend without end."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.yaml_implicit_resolvers = {}
        self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise _error(self.line + 1, f"expected at most {DEPTH_MAX} levels, found more")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Reader:
    """Walks the nodes once, aliases written out."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.source = Source()
        self.environ = environ
        self.values = 0

    def read(self, node: yaml.Node, path: Path) -> Plain:
        line = node.start_mark.line + 1
        self.source.lines.setdefault(path, line)
        self.values += 1
        if self.values > VALUES_MAX or len(path) > DEPTH_MAX:
            raise _error(line, "the aliases stand for too much", "write the values out")
        if node.tag not in _STANDARD_TAGS:
            self.refuse(
                path, f'expected a plain value, found the tag "{node.tag}"', "remove the tag"
            )
            return None
        match node:
            case yaml.ScalarNode():
                return self.scalar(node, path)
            case yaml.SequenceNode():
                return [self.read(item, (*path, at)) for at, item in enumerate(node.value)]
            case yaml.MappingNode():
                return self.mapping(node, path)
            case _:
                raise AssertionError(f"YAML has no other node than these three: {node}")

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Plain]:
        values: dict[str, Plain] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise _error(line, "expected a word as key, found a list or mapping")
            if key.value in values:
                first = self.source.lines[*path, key.value]
                self.source.problems.append(
                    ConfigProblem(
                        line,
                        dotted((*path, key.value)),
                        f"expected each key once, found it in line {first} too",
                        "remove one of the two",
                    )
                )
                continue
            self.source.lines[*path, key.value] = line
            values[key.value] = self.read(value, (*path, key.value))
        return values

    def scalar(self, node: yaml.ScalarNode, path: Path) -> Plain:
        text = self.whole_text(node.value, path)
        if "${" in text:
            return self.with_variables(text, path)
        return _plain(text) if node.style is None else text

    def whole_text(self, text: str, path: Path) -> str:
        """JSON escapes write one character as two halves; a half alone is no text."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.refuse(
                path, "expected text, found half of a character", "write the character itself"
            )
            return ""

    def with_variables(self, text: str, path: Path) -> str:
        self.source.expanded.add(path)

        def replaced(found: re.Match[str]) -> str:
            name = found[1]
            if not found[2] or not _VARIABLE_NAME.fullmatch(name):
                self.refuse(
                    path, f'expected ${{NAME}}, found "{found[0]}"', "use letters, digits and _"
                )
            elif name not in self.environ:
                self.refuse(path, f"the variable {name} is not set", f"export {name}=...")
            return self.environ.get(name, "")

        return _VARIABLE.sub(replaced, text)

    def refuse(self, path: Path, message: str, hint: str) -> None:
        self.source.problems.append(self.source.problem(path, message, hint))
        self.source.unread.add(path)


def _plain(text: str) -> Plain:
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    if number[1] is None and number[2] is None:
        return int(text)
    return float(text) if math.isfinite(float(text)) else text


def _error(line: int | None, message: str, hint: str | None = None) -> ConfigError:
    return ConfigError([ConfigProblem(line, "", message, hint)])
