"""How operations and checks are called, with what they ask for, and how their errors are told."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from squinney.mongo.schema import Collection, Db

__tracebackhide__ = True  # pytest shows the line of the test, then what is wrong; `--full-trace` shows all
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
CALLED = {
    1: "is called with the database",
    2: "is called with the database and, if it has a second parameter, with what prepare returned",
}


def call(act: Callable[..., object], db: Db, prepared: Any) -> object:
    """Call it with the database, and with what `prepare` returned if it has a second parameter."""
    wanted = [one for one in inspect.signature(act).parameters.values() if one.kind in POSITIONAL]
    return act(db, prepared) if len(wanted) > 1 else act(db)


def require_function(what: str, act: object, *, arguments: int = 2, given: Iterable[str] = ()) -> None:
    """Refuse, before anything runs, what could not be called, or would do nothing when it is.

    `given` names keyword arguments that it is called with besides. Only what finds problems may yield: it is read.

    Raises: `TypeError`.
    """
    if not callable(act):
        raise TypeError(f"{what} must be a function of the database, not {act!r}")
    if inspect.iscoroutinefunction(act) or inspect.isasyncgenfunction(act):
        raise TypeError(f"{what} must not be async: what it does is sent by PyMongo, from a thread")
    if inspect.isgeneratorfunction(act) and what != "problems":
        raise TypeError(f"{what} must not yield: nobody would run it")
    try:
        inspect.signature(act).bind(*[None] * _positional(act, arguments), **dict.fromkeys(given))
    except TypeError as error:
        raise TypeError(f"{what} {CALLED[arguments]}: {error}") from None


def _positional(act: Callable[..., object], most: int) -> int:
    wanted = [one for one in inspect.signature(act).parameters.values() if one.kind in POSITIONAL]
    return most if len(wanted) > 1 else 1


def require_list(what: str, value: object, of: str) -> None:
    """Refuse one thing where a list of them is meant.

    Raises: `TypeError`.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError(f"{what} must be a list of {of}, not {value!r}")


def require_collections(collections: Sequence[object]) -> None:
    """Refuse names in the place of collections.

    Raises: `TypeError`.
    """
    require_list("collections", collections, "Collections")
    for one in collections:
        if not isinstance(one, Collection):
            raise TypeError(f"collections must be Collection(...) of squinney.mongo.schema, not {one!r}")


def failure_of(check: Callable[..., object], db: Db, prepared: Any) -> str:
    """What a check finds wrong, in a line; empty where nothing is. It raises, or returns False."""
    try:
        return "the check returned False" if call(check, db, prepared) is False else ""
    except Exception as error:
        return in_a_line(error)


def in_a_line(error: BaseException) -> str:
    """An error with the first line of what it says; pytest adds others to an assertion's. Or else with its source."""
    told = f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]
    if isinstance(error, AssertionError) and not str(error) and error.__traceback__:
        raised = traceback.extract_tb(error.__traceback__)[-1]
        told += f" in {Path(raised.filename).name}, line {raised.lineno}: {raised.line}"
    return told
