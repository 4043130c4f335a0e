"""The command line: one table of commands, and only the one that is called is imported.

Help for all of them comes from the table, so `homeport --help` does not load the gateway. A command
that raises ConfigError ends with status 2 and a line for each problem; `typer.Exit(1)` is how a
command says that it ran and failed.
"""

import sys
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Annotated, Any, NamedTuple

import typer

from homeport.config.problem import ConfigError


class Entry(NamedTuple):
    """A command: where its function is, what it does in a line, and how it is called."""

    target: str
    help: str
    example: str


COMMANDS: dict[str, Entry] = {
    "up": Entry(
        "homeport.cli.up:up",
        "Run a whole fleet on this machine; without a file, a simulated one.",
        "homeport up --agents 8 --for 20",
    ),
    "serve": Entry(
        "homeport.cli.serve:serve",
        "Gateway and router in front of engines that run elsewhere.",
        "homeport serve -c fleet.yaml",
    ),
    "sim": Entry(
        "homeport.cli.sim:sim",
        "Simulated engines on consecutive ports.",
        "homeport sim --engines 4 --port 8001",
    ),
    "check": Entry(
        "homeport.cli.check:check",
        "Validate a config: all problems at once, and what to do.",
        "homeport check fleet.yaml",
    ),
    "explain": Entry(
        "homeport.cli.explain:explain",
        "Why a request was queued, refused, and placed where it was.",
        "homeport explain ID",
    ),
    "journal verify": Entry(
        "homeport.cli.journal:verify",
        "Replay a journal and print a digest of its commands and state.",
        "homeport journal verify homeport.journal",
    ),
    "key new": Entry(
        "homeport.cli.key:new",
        "A tenant key, shown once, and the line with its hash for the config.",
        "homeport key new --name acme",
    ),
    "bench relay": Entry(
        "homeport.cli.bench.relay:relay",
        "What it costs to relay requests and streams.",
        "homeport bench relay --json",
    ),
    "bench route": Entry(
        "homeport.cli.bench.route:route",
        "How long a decision takes.",
        "homeport bench route --json",
    ),
    "bench index": Entry(
        "homeport.cli.bench.index:index",
        "How long the prefix index takes to match and learn.",
        "homeport bench index --json",
    ),
}

GROUPS: dict[str, str] = {
    "journal": "What was recorded.",
    "key": "Keys of tenants.",
    "bench": "Micro-benchmarks.",
}


def main() -> None:
    """The `homeport` command; ends the process with 0 ok, 1 failed, 2 wrong usage or config."""
    try:
        command_line(sys.argv[1:])()
    except ConfigError as error:
        print(error.describe(), file=sys.stderr)
        sys.exit(2)


def command_line(words: list[str]) -> typer.Typer:
    """The commands, of which only the one that the words call can be run."""
    app = _app("The layer between AI agents and a fleet of LLM inference engines.")
    app.callback()(_options)
    groups = {name: _app(about) for name, about in GROUPS.items()}
    called = _called(words)
    for name, entry in COMMANDS.items():
        group, _, verb = name.rpartition(" ")
        function = _function(entry.target) if name == called else _not_called
        parent = groups[group] if group else app
        parent.command(verb, short_help=entry.help, epilog=f"Example: {entry.example}")(function)
    for name, group_app in groups.items():
        app.add_typer(group_app, name=name)
    return app


def _app(about: str) -> typer.Typer:
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _called(words: list[str]) -> str | None:
    """The command that the first words name."""
    words = [word for word in words if word != "--"]
    return next((name for name in (" ".join(words[:2]), *words[:1]) if name in COMMANDS), None)


def _function(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def _not_called() -> None:
    raise AssertionError("only the command that was called is run")


def _version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"homeport {metadata.version('homeport')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The layer between AI agents and a fleet of LLM inference engines."""
