"""What a machine can check cheaply of the tree itself."""

import ast
import re
from pathlib import Path

from homeport.config.reference import reference

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "homeport"
VAGUE = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
UNFINISHED = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")))
MACHINE = re.compile(r"/(?:work|root|home/\w+)/|\b(?:pypi|npmjs|debian)\.(?:org|com)\b")


def packages() -> list[Path]:
    return [path.parent for path in SOURCE.rglob("__init__.py")]


def texts() -> list[Path]:
    kinds = ("*.py", "*.md", "*.toml", "*.c")
    folders = (ROOT / "src", ROOT / "docs", ROOT / "tests")
    return [p for folder in folders for kind in kinds for p in folder.rglob(kind)]


def test_every_package_says_what_belongs_there() -> None:
    for package in packages():
        text = (package / "__init__.py").read_text()
        assert ast.get_docstring(ast.parse(text)), f"{package} has no docstring"


def test_every_module_says_what_it_is() -> None:
    for path in SOURCE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_the_architecture_names_every_package() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    for package in packages():
        if package.parent == SOURCE:
            assert f"`{package.name}" in text, f"docs/ARCHITECTURE.md does not name {package.name}"


def test_no_file_has_a_name_that_says_nothing() -> None:
    for path in SOURCE.rglob("*.py"):
        assert path.stem not in VAGUE, f"{path}: name it after what it holds"


def test_nothing_is_left_unfinished_and_no_machine_is_named() -> None:
    for path in texts():
        if path == Path(__file__):
            continue
        text = path.read_text()
        assert not UNFINISHED.search(text), f"{path} has something unfinished"
        assert not MACHINE.search(text), f"{path} names a machine's path or a registry"


def test_the_config_reference_is_what_the_schema_says() -> None:
    written = (ROOT / "docs" / "reference" / "config.md").read_text()
    assert written == reference(), "run `make docs`"
