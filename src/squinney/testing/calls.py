"""How operations and checks are called, with what they ask for, and how their errors are told."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from squinney.mongo.schema import Db

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def call(act: Callable[..., object], db: Db, prepared: Any) -> object:
    """Call it with the database, and with what `prepare` returned if it has a second parameter."""
    wanted = [one for one in inspect.signature(act).parameters.values() if one.kind in POSITIONAL]
    return act(db, prepared) if len(wanted) > 1 else act(db)


def in_a_line(error: BaseException) -> str:
    """An error with the first line of what it says; pytest adds others to an assertion's."""
    return f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]
