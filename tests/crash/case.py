"""One operation of the sweep."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymongo.errors import PyMongoError

from squinney.mongo.schema import Collection, Db
from squinney.transactions import Mode, Transactions


@dataclass(frozen=True)
class Case:
    """How to prepare, do and check an operation; see the package's docstring."""

    name: str
    system: str
    prepare: Callable[[Db], Any]
    act: Callable[[Db, Mode, Any], object]
    check: Callable[[Db, Any], object]
    modes: Sequence[Mode] = ("native", "two-phase")
    covers: Sequence[str] = ()
    age: Callable[[Db], object] = lambda db: None
    collections: Sequence[Collection] = ()


def transactions(db: Db, mode: Mode) -> Transactions:
    """As an operation under the sweep uses them: time enough on a busy machine, for the harness lets it pass."""
    return Transactions(db, mode, timeout_seconds=20, margin_seconds=1)


def modules() -> list[str]:
    """The modules that hold cases."""
    return sorted(f"tests.crash.{path.stem}" for path in Path(__file__).parent.glob("cases_*.py"))


def cases() -> dict[str, Case]:
    """Every case, by name."""
    found = [case for name in modules() for case in importlib.import_module(name).CASES]
    by_name = {case.name: case for case in found}
    if len(by_name) < len(found):
        raise ValueError("two cases have one name")
    return by_name


def covered() -> set[str]:
    """The public operations and jobs that the sweep covers."""
    return {name for case in cases().values() for name in (case.name.partition(" ")[0], *case.covers)}


def run_case(name: str, mode: Mode, db: Db, state: Any) -> None:
    """Do a case's operation, in a process that knows it by its name. An error of the driver's may not get out."""
    try:
        cases()[name].act(db, mode, state)
    except PyMongoError as error:
        raise AssertionError(f"{name} let an error of the driver out") from error
