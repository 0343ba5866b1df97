"""The systems that commands use: the built-in ones, and those named by the setting `systems`."""

from __future__ import annotations

import typer

from squinney import assembly
from squinney.http.commands import settings_of
from squinney.system import System


def systems_of(context: typer.Context) -> tuple[System, ...]:
    """Return all systems of this invocation."""
    return assembly.with_systems(settings_of(context).system_packages)
