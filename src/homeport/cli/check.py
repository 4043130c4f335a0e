"""`homeport check`: is this config right, and what would run."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from homeport.config.document import json_schema
from homeport.config.load import load
from homeport.config.problem import ConfigError
from homeport.config.reference import reference
from homeport.config.schema import Config, Tenant


def check(
    file: Annotated[Path | None, typer.Argument(help="The config, YAML or JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine output.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference.")] = False,
) -> None:
    """Validate a config: every problem at once, with its line, what was expected, what to do."""
    if schema:
        print(json.dumps(json_schema(), indent=2))
    elif markdown:
        print(reference(), end="")
    elif file is None:
        raise typer.BadParameter("name the config file", param_hint="FILE")
    else:
        _check_file(file, as_json)


def _check_file(file: Path, as_json: bool) -> None:
    try:
        config = load(file, os.environ)
    except ConfigError as error:
        print(_errors_json(error) if as_json else _errors_text(error))
        raise typer.Exit(2) from None
    print(json.dumps({"ok": True, "errors": []}) if as_json else _summary(config, file))


def _errors_json(error: ConfigError) -> str:
    return json.dumps({"ok": False, "errors": msgspec.to_builtins(error.errors)})


def _errors_text(error: ConfigError) -> str:
    count = len(error.errors)
    return f"{error.describe()}\n{count} {'problem' if count == 1 else 'problems'}"


def _summary(config: Config, file: Path) -> str:
    """What would run, in five lines."""
    models = Counter(str(engine.model) for engine in config.engines)
    model_names = ", ".join(f"{model} ({count})" for model, count in models.items())
    tenant_names = ", ".join(_tenant_name(tenant) for tenant in config.tenants)
    journal = config.journal.path if config.journal else "none"
    return "\n".join(
        [
            f"{file}: ok",
            f"  gateway  {config.gateway.listen}, admin {config.admin.listen}",
            f"  engines  {len(config.engines)}: {model_names}",
            f"  tenants  {tenant_names or 'none: open to everyone'}",
            f"  policy   {config.routing.policy}, journal {journal}",
        ]
    )


def _tenant_name(tenant: Tenant) -> str:
    keys = f"{len(tenant.keys)} {'key' if len(tenant.keys) == 1 else 'keys'}"
    return f"{tenant.name} ({'anonymous' if tenant.anonymous else keys})"
