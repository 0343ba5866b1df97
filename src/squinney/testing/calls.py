"""Check and call the functions that users pass to the sweep and the explorer, and format their errors."""

from __future__ import annotations

import inspect
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from squinney.mongo.schema import Collection, Db

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
CALLED_WITH = {
    1: "is called with the database",
    2: "is called with the database and, if it has a second parameter, with what prepare returned",
}
MODE = "mode"


def call(act: Callable[..., object], db: Db, prepared: Any, *, mode: str = "") -> object:
    """Call `act` with the database and, if it has a second parameter, with what `prepare` returned.

    A parameter called `mode` does not count, wherever it stands: it gets the `mode`, or keeps its default.
    """
    bound = _bound(act, [db, prepared], mode)
    return act(*bound.args, **bound.kwargs)


def takes_mode(act: Callable[..., object]) -> bool:
    """Return whether the function has a parameter called `mode`."""
    return MODE in inspect.signature(act).parameters


def _bound(act: Callable[..., object], values: Sequence[object], mode: str) -> inspect.BoundArguments:
    """Bind the values to the function's parameters in order, and the mode to the one of its name.

    Raises: `TypeError` if the function needs more arguments, or takes none.
    """
    signature = inspect.signature(act)
    # `partial(act, mode=...)` makes the parameters after `mode` keywords, though they have no value yet.
    kinds = (*POSITIONAL, inspect.Parameter.KEYWORD_ONLY) if isinstance(act, partial) else POSITIONAL
    others = [
        one.name
        for one in signature.parameters.values()
        if one.name != MODE and one.kind in kinds and (one.kind in POSITIONAL or one.default is one.empty)
    ]
    if not others:
        return signature.bind(values[0])
    given = {**dict(zip(others, values, strict=False)), **({MODE: mode} if mode and takes_mode(act) else {})}
    in_order = {name: given[name] for name in signature.parameters if name in given}
    bound = inspect.BoundArguments(signature, OrderedDict(in_order))
    return signature.bind(*bound.args, **bound.kwargs)


def require_functions(**given: object) -> None:
    """Refuse arguments as `require_function` does, except those that are None.

    Raises: `TypeError`.
    """
    for name, act in given.items():
        if act is not None:
            require_function(name, act)


def require_function(name: str, act: object, *, mode: str = "") -> None:
    """Refuse an argument that cannot be called as needed, or whose call would do nothing.

    `mode` is passed too, if the function has such a parameter. Only `problems` may be a generator: its items are read.

    Raises: `TypeError`.
    """
    if not callable(act):
        raise TypeError(f"{name} must be a function that takes the database, not {act!r}")
    if inspect.iscoroutinefunction(act) or inspect.isasyncgenfunction(act):
        raise TypeError(f"{name} must not be async: it is called in a thread, with a synchronous PyMongo database")
    if inspect.isgeneratorfunction(act) and name != "problems":
        raise TypeError(f"{name} must not be a generator function (it uses yield): its body would never run")
    arguments = 1 if name in ("prepare", "problems") else 2
    try:
        _bound(act, [None] * arguments, mode)
    except TypeError as error:
        raise TypeError(f"{name} {CALLED_WITH[arguments]}: {error}") from None


def run_prepare(prepare: Callable[..., object], db: Db) -> Any:
    """Call `prepare(db)`. An error of it gets a note, since it is not an error of the operation."""
    try:
        return prepare(db)
    except Exception as error:
        error.add_note("while prepare ran")
        raise


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
