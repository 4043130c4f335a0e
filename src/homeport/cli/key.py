"""`homeport key new`: a tenant's key is shown once; what stays is its hash."""

import json
import secrets
from typing import Annotated

import typer

from homeport.config.key import key_hash


def new(
    name: Annotated[str, typer.Option(help="The tenant that gets the key.")] = "acme",
    as_json: Annotated[bool, typer.Option("--json", help="Machine output.")] = False,
) -> None:
    """Make a tenant key, show it once, and print the line with its hash for the config."""
    key = new_key()
    if as_json:
        print(json.dumps({"name": name, "key": key, "sha256": key_hash(key)}))
        return
    print(f"{key}\n\nThis is shown once: give it to the tenant. For the config:\n\ntenants:")
    print(f'  - {{name: {json.dumps(name)}, keys: [{{sha256: "{key_hash(key)}"}}]}}')


def new_key() -> str:
    """256 bits from the system, in characters that survive shells and headers."""
    return "hp-" + secrets.token_urlsafe(32)
