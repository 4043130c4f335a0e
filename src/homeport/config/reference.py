"""The reference of the config in Markdown, made from its schema."""

import json
from collections.abc import Iterator

from homeport.config.document import Schema, json_schema
from homeport.config.kind import kind_expected

_HEAD = """# Config reference

Made from the schema by `make docs`; `homeport check --schema` prints the schema itself.
`engines[]` is each entry of the list `engines`. What is left out has its default.
"""


def reference() -> str:
    """The whole page."""
    sections = [_section(name, part) for name, part in _sections("", json_schema())]
    return "\n".join([_HEAD, *sections])


def _sections(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Each group of keys, the outer before the inner."""
    yield path, schema
    for key, part in schema["properties"].items():
        inner = part.get("items", part)
        if "properties" in inner:
            name = f"{path}.{key}" if path else key
            yield from _sections(name + ("[]" if "items" in part else ""), inner)


def _section(name: str, schema: Schema) -> str:
    title = f"## `{name}`" if name else "## The file"
    required = schema.get("required", [])
    rows = [
        _row(key, part, key in required)
        for key, part in schema["properties"].items()
        if "properties" not in part
    ]
    table = ["| Key | Value | Default | Meaning |", "|---|---|---|---|", *rows]
    return "\n".join([title, "", schema["description"], "", *(table if rows else []), ""])


def _row(key: str, schema: Schema, is_required: bool) -> str:
    inner = schema.get("items", schema)
    value = f"list: {_value(inner)}" if "items" in schema else _value(inner)
    meaning = "See below." if "properties" in inner else inner.get("description", "")
    return f"| `{key}` | {value} | {_default(schema, is_required)} | {meaning} |"


def _value(schema: Schema) -> str:
    if "x-kind" in schema:
        return kind_expected(schema).replace('"', "`")
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    return {"boolean": "`true` or `false`"}.get(schema["type"], "entries")


def _default(schema: Schema, is_required: bool) -> str:
    if is_required:
        return "to be given"
    if "default" not in schema:
        return "absent"
    default = schema["default"]
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"
