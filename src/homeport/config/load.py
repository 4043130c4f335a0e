"""A file becomes a `Config`, or every problem in it at once."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from homeport.config.document import json_schema, settled, violations
from homeport.config.problem import ConfigError, ConfigProblem
from homeport.config.rule import faults
from homeport.config.schema import Config
from homeport.config.source import TEXT_CHARS_MAX, read


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """The config in the file; raises ConfigError, also when the file cannot be read."""
    try:
        return parse(_file_text(path), environ)
    except ConfigError as error:
        raise ConfigError(error.errors, str(path)) from None


def parse(text: str, environ: Mapping[str, str]) -> Config:
    """The config in the text; raises ConfigError."""
    source = read(text, environ)
    if not isinstance(source.value, dict):
        message = "expected keys with values, such as `engines:`, found something else"
        raise ConfigError([ConfigProblem(1, "", message, "begin with `kind: Fleet`")])
    schema = json_schema()
    wrong = violations(source, schema)
    document = settled(source.value, schema, source.unread | set(wrong))
    problems = source.problems + list(wrong.values())
    problems += [source.problem(*fault) for fault in faults(document, environ)]
    if problems:
        raise ConfigError(sorted(problems, key=lambda problem: (problem.line or 0, problem.key)))
    return msgspec.convert(document, Config)


def _file_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4 * TEXT_CHARS_MAX + 1).decode("utf-8-sig")
    except FileNotFoundError:
        raise _file_error(f"there is no file {path}", "name the config file") from None
    except UnicodeDecodeError as error:
        hint = "save the file as UTF-8"
        raise _file_error(f"expected UTF-8, found another byte at {error.start}", hint) from None
    except OSError as error:
        raise _file_error(f"cannot read {path}: {error.strerror}", "name a file to read") from None


def _file_error(message: str, hint: str) -> ConfigError:
    return ConfigError([ConfigProblem(None, "", message, hint)])
