"""Answers of real engines, as they came over the wire."""

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of captured bytes."""
    shared = Path(os.environ.get("HOMEPORT_SHARED", PROJECT.parent / "shared"))
    folder = shared / "fixtures"
    assert folder.is_dir(), f"expected captures in {folder}: set HOMEPORT_SHARED to their parent"
    return folder
