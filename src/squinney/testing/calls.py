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
from squinney.testing.async_operations import AsyncCaller, is_async

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
CALLED_WITH = {
    1: "is called with the database",
    2: "is called with the database and, if it has a second parameter without a default, with what prepare returned",
}
STATE = "state"


def call(act: Callable[..., object], db: Db, prepared: Any, asynchronous: AsyncCaller | None = None) -> object:
    """Call `act` with the database and, if it has a second parameter, with what `prepare` returned.

    Parameters keep their defaults, except one called `state`, which gets what `prepare` returned. An `async def` gets
    the same database from the `AsyncMongoClient` of `asynchronous`.

    Raises: `TypeError` if it returns a coroutine all the same, as a `lambda` may.
    """
    if asynchronous and is_async(act):
        return asynchronous.call(partial(_call, act, prepared), db.name)
    result = _call(act, prepared, db)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("an operation that returns a coroutine must be an async def, so that its client can be async")
    return result


def _call(act: Callable[..., Any], prepared: Any, db: Any) -> Any:
    bound = _bound(act, [db, prepared])
    return act(*bound.args, **bound.kwargs)


def _bound(act: Callable[..., object], values: Sequence[object]) -> inspect.BoundArguments:
    """Bind the values to the function's parameters in order.

    Raises: `TypeError` if the function needs more arguments, or takes none.
    """
    signature = inspect.signature(act)
    # `partial(act, by=...)` makes the parameters after `by` keywords, though they have no value yet.
    kinds = (*POSITIONAL, inspect.Parameter.KEYWORD_ONLY) if isinstance(act, partial) else POSITIONAL
    others = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind in kinds and (parameter.kind in POSITIONAL or parameter.default is parameter.empty)
    ]
    if not others:
        return signature.bind(values[0])
    first, *rest = others
    # `def bump(db, by=5)` means 5: another value would prove another operation than the one meant.
    # guard: a parameter with a default keeps it
    unset = [name for name in rest if name == STATE or signature.parameters[name].default is inspect.Parameter.empty]
    given = dict(zip([first, *unset], values, strict=False))
    in_order = {name: given[name] for name in signature.parameters if name in given}
    bound = inspect.BoundArguments(signature, OrderedDict(in_order))
    return signature.bind(*bound.args, **bound.kwargs)


def require_functions(**given: object) -> None:
    """Refuse arguments as `require_function` does, except those that are None. None of them may be `async`.

    Raises: `TypeError`.
    """
    for name, act in given.items():
        if act is not None:
            if is_async(act):
                raise TypeError(f"{name} must not be async: only operations may be; it gets a synchronous database")
            require_function(name, act)


def require_function(name: str, act: object) -> None:
    """Refuse an argument that cannot be called as needed, or whose call would do nothing.

    Only `problems` may be a generator: its items are read.

    Raises: `TypeError`.
    """
    if not callable(act):
        raise TypeError(f"{name} must be a function that takes the database, not {act!r}")
    if (inspect.isgeneratorfunction(act) and name != "problems") or inspect.isasyncgenfunction(act):
        raise TypeError(f"{name} must not be a generator function (it uses yield): its body would never run")
    arguments = 1 if name in ("prepare", "problems") else 2
    try:
        _bound(act, [None] * arguments)
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
    for collection in collections:
        if not isinstance(collection, Collection):
            raise TypeError(f"collections must hold squinney.mongo.schema.Collection objects, not {collection!r}")


def failure_of(check: Callable[..., object], db: Db, prepared: Any) -> str:
    """Run a check; return why it failed, or an empty string. A check fails by raising or by returning False."""
    try:
        return "the check returned False" if call(check, db, prepared) is False else ""
    except Exception as error:
        return one_line(error)


def problems_left(problems: Callable[[Db], Iterable[object]] | None, db: Db) -> str:
    """Return the problems that `problems(db)` finds, or why it failed; an empty string if there are none."""
    try:
        texts = [str(problem) for problem in problems(db)] if problems else []
    except Exception as error:
        return f"problems failed: {one_line(error)}"
    return "problems: " + "; ".join(texts) if texts else ""


def one_line(error: BaseException) -> str:
    """Format an error with the first line of its message, since pytest adds lines to those of assertions.

    For an assertion without a message, the line of source that failed is added instead.
    """
    line = f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]
    if isinstance(error, AssertionError) and not str(error) and error.__traceback__:
        raised = traceback.extract_tb(error.__traceback__)[-1]
        line += f" in {Path(raised.filename).name}, line {raised.lineno}: {raised.line}"
    return line
