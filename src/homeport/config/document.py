"""The JSON Schema of the config, and all that a document has against it, in words.

The schema is made from the classes in `schema.py`, with every reference written out. A value of a
kind (`x-kind`) is judged by `kind.py`; its type and pattern stand in the schema for editors.
"""

import json
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]

from homeport.config.kind import kind_expected, kind_named, kind_read, nearest
from homeport.config.problem import ConfigProblem, Path
from homeport.config.schema import NOT_YET, Config
from homeport.config.source import Plain, Source

Schema = dict[str, Any]

_TYPES = {
    "object": "keys with values",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
}
FOUND_CHARS_MAX = 60
_FROM_VARIABLE = object()
"""Stands for what a variable held: it may be a secret, and errors end up in logs."""


def json_schema() -> Schema:
    """The schema, for editors and for us."""
    made = msgspec.json.schema(Config)
    schema = _written_out(made, made["$defs"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def violations(source: Source, schema: Schema) -> dict[Path, ConfigProblem]:
    """What is wrong with each value by itself; a value that was not read is not judged again."""
    found: dict[Path, ConfigProblem] = {}
    for error in _Validator(schema).iter_errors(source.value):
        if tuple(error.absolute_path) in source.expanded:
            error.instance, error.message = _FROM_VARIABLE, "look at what the variable holds"
        for path, message, hint in _faults(error):
            if path not in source.unread:
                found.setdefault(path, source.problem(path, message, hint))
    return found


def settled(value: Plain, schema: Schema, wrong: set[Path], path: Path = ()) -> Any:
    """The document with each value as its kind means it, and None where one is wrong."""
    if path in wrong:
        return None
    if "x-kind" in schema:
        return kind_read(value, schema)
    match value:
        case dict():
            known = schema["properties"]
            return {
                key: settled(part, known[key], wrong, (*path, key))
                for key, part in value.items()
                if key in known
            }
        case list():
            items = schema["items"]
            return [settled(part, items, wrong, (*path, at)) for at, part in enumerate(value)]
        case _:
            return value


def _written_out(node: Schema, definitions: Schema) -> Schema:
    """References replaced by what they mean, and the absent value by absence."""
    if "x-kind" in node:
        return _kind_written_out(node)
    if "anyOf" in node:
        (only,) = (each for each in node["anyOf"] if each != {"type": "null"})
        return _written_out(only, definitions)
    if "$ref" in node:
        return _written_out(definitions[node["$ref"].rpartition("/")[2]], definitions)
    result = {
        name: part for name, part in node.items() if name not in ("title", "default", "$defs")
    }
    if "properties" in node:
        parts = node["properties"]
        result["properties"] = {key: _written_out(parts[key], definitions) for key in parts}
    if "items" in node:
        result["items"] = _written_out(node["items"], definitions)
    if isinstance(node.get("default"), str | bool):
        result["default"] = node["default"]
    if node.get("default") == ():
        result["default"] = []
    return result


def _kind_written_out(node: Schema) -> Schema:
    """A kind as editors understand it: types, a pattern, and the default as it would be written."""
    kind, words = kind_named(node), node.get("x-words", [])
    pattern = "|".join([kind.pattern, *(f"^{word}$" for word in words)])
    result = {
        name: node[name] for name in ("description", "x-kind", "x-words", "x-least") if name in node
    }
    result |= {"type": list(kind.types), "pattern": pattern}
    default = node.get("default")
    if default is None:
        return result | ({"default": "none"} if "none" in words else {})
    if node["x-kind"] == "address":
        return result | {"default": f"{default['host']}:{default['port']}"}
    return result | {"default": kind.show(default) if isinstance(default, int) else default}


def _check_kind(_: object, kind: object, value: Any, schema: Schema) -> Iterator[ValidationError]:
    """The keyword `x-kind` for jsonschema; the message is the hint alone."""
    try:
        kind_read(value, schema)
    except ValueError as error:
        yield ValidationError(str(error))


_Validator = cast("type[Validator]", extend(Draft202012Validator, {"x-kind": _check_kind}))


def _faults(error: ValidationError) -> Iterator[tuple[Path, str, str | None]]:
    """Where, what, and what to do; one violation of the schema can be several faults."""
    path = tuple(error.absolute_path)
    value: Any = error.instance
    expected: Any = error.validator_value
    schema: Any = error.schema
    if "x-kind" in schema:
        if error.validator == "x-kind":
            kind = kind_named(schema)
            found = "something else" if kind.is_secret else _found(value)
            yield path, f"expected {kind_expected(schema)}, found {found}", error.message or None
        return
    match error.validator:
        case "additionalProperties":
            known = list(schema["properties"])
            for key in value:
                if key not in known:
                    yield (*path, key), *_unknown_key(key, known)
        case "required":
            for key in expected:
                if key not in value:
                    yield (*path, key), *_missing_key(key, schema["properties"][key])
        case "enum":
            yield (
                path,
                f"expected {_alternatives(expected)}, found {_found(value)}",
                _enum_hint(value, expected),
            )
        case "minItems":
            yield path, "expected at least one entry, found an empty list", "add one"
        case "type":
            yield (
                path,
                f"expected {_TYPES[expected]}, found {_found(value)}",
                _type_hint(value, expected),
            )
        case _:
            raise AssertionError(f"the schema has no words for {error.validator}")


def _unknown_key(key: str, known: list[str]) -> tuple[str, str]:
    if key in NOT_YET:
        return "is not in this version", "remove it"
    if key == "<<":
        return "merge keys are not read", "write the keys out"
    message = f"unknown key, expected one of {', '.join(known)}"
    near = nearest(key, known)
    return message, f'did you mean "{near}"?' if near else "remove it"


def _missing_key(key: str, schema: Schema) -> tuple[str, str]:
    about = schema.get("description", "").rstrip(".")
    return "is missing", f"add {key}: {about[:1].lower()}{about[1:]}" if about else f"add {key}"


def _alternatives(words: list[str]) -> str:
    return " or ".join(words) if len(words) < 3 else ", ".join(words[:-1]) + f" or {words[-1]}"


def _enum_hint(value: object, words: list[str]) -> str | None:
    if value in NOT_YET:
        return f"{value} is not in this version"
    near = nearest(value, words) if isinstance(value, str) else None
    return f'did you mean "{near}"?' if near else f"write {words[0]}"


def _type_hint(value: object, expected: str) -> str | None:
    if value is None:
        return "remove the key or give it a value"
    if expected == "boolean" and isinstance(value, str):
        return {
            "yes": "write true",
            "on": "write true",
            "no": "write false",
            "off": "write false",
        }.get(value.lower())
    if expected == "array":
        return "begin each entry with a dash"
    return None


def _found(value: object) -> str:
    """What stands there, short enough for a line."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            short = value if len(value) <= FOUND_CHARS_MAX else value[:FOUND_CHARS_MAX] + "..."
            return json.dumps(short, ensure_ascii=False)
        case list():
            return "a list"
        case dict():
            return "keys with values"
        case _:
            return "what a variable holds"
