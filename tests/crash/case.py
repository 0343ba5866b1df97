"""Where the cases of the sweep are."""

from __future__ import annotations

from pathlib import Path

from squinney.testing import Cases


def modules() -> list[str]:
    """The modules that hold cases."""
    return sorted(f"tests.crash.{path.stem}" for path in Path(__file__).parent.glob("cases_*.py"))


def cases() -> Cases:
    """Every case."""
    return Cases(*modules())
