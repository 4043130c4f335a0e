"""`homeport journal verify`: replay a journal and print a digest of its commands and state."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from homeport.core.router import Router
from homeport.observe.journal import JournalError, parts_of, read
from homeport.observe.journal import verify as verify_journal
from homeport.plugins.registry import POLICIES

FAILED = 1


def verify(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="The journal; several files oldest first."),
    ],
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Replay a journal and print a digest of its commands and state."""
    try:
        parts = parts_of(files[0]) if len(files) == 1 else files
        found = verify_journal(read(parts), Router(POLICIES))
    except (JournalError, OSError) as error:
        print(f"homeport journal verify: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    if json:
        print(msgspec.json.encode({**msgspec.structs.asdict(found), "ok": found.is_ok}).decode())
    else:
        print(f"records   {found.records}")
        print(f"commands  {found.commands_digest}")
        print(f"state     {found.state_digest}")
        print("ok: the same commands again" if found.is_ok else f"differs: {found.difference}")
    raise typer.Exit(0 if found.is_ok else FAILED)
