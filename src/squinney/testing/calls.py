"""Check and call the functions that users pass to the sweep and the explorer, and format their errors."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from squinney.mongo.schema import Collection, Db

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
CALLED_WITH = {
    1: "is called with the database",
    2: "is called with the database and, if it has a second parameter, with what prepare returned",
}


def call(act: Callable[..., object], db: Db, prepared: Any) -> object:
    """Call `act` with the database and, if it has a second parameter, with what `prepare` returned."""
    return act(db, prepared) if _takes_prepared(act) else act(db)


def _takes_prepared(act: Callable[..., object]) -> bool:
    return sum(one.kind in POSITIONAL for one in inspect.signature(act).parameters.values()) > 1


def require_functions(**given: object) -> None:
    """Refuse arguments as `require_function` does, except those that are None.

    Raises: `TypeError`.
    """
    for name, act in given.items():
        if act is not None:
            require_function(name, act)


def require_function(name: str, act: object, *, keywords: Iterable[str] = ()) -> None:
    """Refuse an argument that cannot be called as needed, or whose call would do nothing.

    `keywords` names keyword arguments that are passed too. Only `problems` may be a generator: its items are read.

    Raises: `TypeError`.
    """
    if not callable(act):
        raise TypeError(f"{name} must be a function that takes the database, not {act!r}")
    if inspect.iscoroutinefunction(act) or inspect.isasyncgenfunction(act):
        raise TypeError(f"{name} must not be async: it is called in a thread, with a synchronous PyMongo database")
    if inspect.isgeneratorfunction(act) and name != "problems":
        raise TypeError(f"{name} must not be a generator function (it uses yield): its body would never run")
    arguments = 1 if name in ("prepare", "problems") else 2
    passed = arguments if _takes_prepared(act) else 1
    try:
        inspect.signature(act).bind(*[None] * passed, **dict.fromkeys(keywords))
    except TypeError as error:
        raise TypeError(f"{name} {CALLED_WITH[arguments]}: {error}") from None


def require_list(name: str, value: object, of: str) -> None:
    """Refuse a value that is not a list.

    Raises: `TypeError`.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError(f"{name} must be a list of {of}, not {value!r}")


def require_collections(collections: Sequence[object]) -> None:
    """Refuse a list that holds anything but `Collection` objects, such as names.

    Raises: `TypeError`.
    """
    require_list("collections", collections, "Collections")
    for one in collections:
        if not isinstance(one, Collection):
            raise TypeError(f"collections must hold squinney.mongo.schema.Collection objects, not {one!r}")


def failure_of(check: Callable[..., object], db: Db, prepared: Any) -> str:
    """Run a check; return why it failed, or an empty string. A check fails by raising or by returning False."""
    try:
        return "the check returned False" if call(check, db, prepared) is False else ""
    except Exception as error:
        return one_line(error)


def found_by(problems: Callable[[Db], Iterable[object]] | None, db: Db) -> str:
    """Return the problems that `problems(db)` finds, or why it failed; an empty string if there are none."""
    try:
        found = [str(problem) for problem in problems(db)] if problems else []
    except Exception as error:
        return f"problems failed: {one_line(error)}"
    return "problems: " + "; ".join(found) if found else ""


def one_line(error: BaseException) -> str:
    """Format an error with the first line of its message, since pytest adds lines to those of assertions.

    For an assertion without a message, the line of source that failed is added instead.
    """
    line = f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]
    if isinstance(error, AssertionError) and not str(error) and error.__traceback__:
        raised = traceback.extract_tb(error.__traceback__)[-1]
        line += f" in {Path(raised.filename).name}, line {raised.lineno}: {raised.line}"
    return line
