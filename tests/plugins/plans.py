"""Explain each shape of command that the product sends, and report bad query plans."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote_plus

from pymongo import MongoClient
from pymongo.errors import PyMongoError, ServerSelectionTimeoutError
from pymongo.monitoring import CommandStartedEvent

from squinney import assembly
from squinney.testing.plans import Command, explainable, plan_problem, shape_of
from tests.plugins.plan_exceptions import EXCEPTIONS, PROOFS, READS_EVERYTHING

TIMES_EACH = 3


class Plans:
    """The shapes seen so far, the shapes still to be explained, and the bad plans found."""

    def __init__(self) -> None:
        self._explained: Counter[str] = Counter()
        self._pending: dict[str, tuple[Any, str, Command]] = {}
        self._findings: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self._clients: dict[Any, MongoClient[Any]] = {}

    def see(self, event: CommandStartedEvent) -> None:
        """Keep one command of each new shape, if the product sent it."""
        if str(event.command.get(event.command_name)) not in _declared():
            return
        commands = explainable(event.command_name, event.command)
        found = {shape_of(event.command_name, command): command for command in commands}
        new = {shape: command for shape, command in found.items() if self._explained[shape] < TIMES_EACH}
        if new and _is_the_products():  # checked last, because it walks the whole stack
            origin = (event.connection_id, event.database_name)
            self._pending.update({shape: (*origin, command) for shape, command in new.items()})

    def explain(self) -> None:
        """Explain the pending commands."""
        pending, self._pending = self._pending, {}
        ended: set[Any] = set()  # servers that a test has ended: a second is enough for all their commands
        for shape, (address, database, command) in pending.items():
            if address in ended:
                self._lost[shape] = "its server has ended"
                continue
            try:
                fault = plan_problem(self._client(address)[database], command)
            except PyMongoError as error:
                self._lost[shape] = str(error)[:200]
                if isinstance(error, ServerSelectionTimeoutError):
                    ended.add(address)
                continue
            self._explained[shape] += 1
            if fault:
                self._findings[shape] = fault

    def _client(self, address: Any) -> MongoClient[Any]:
        if address not in self._clients:
            host, port = address
            server = quote_plus(host) if port is None else f"{host}:{port}"
            uri = f"mongodb://{server}/?directConnection=true&serverSelectionTimeoutMS=1000"
            self._clients[address] = MongoClient(uri)
        return self._clients[address]

    def result(self) -> dict[str, Any]:
        """Return the findings in a form that can be sent between processes.

        The clients are not closed: closing one whose server has stopped takes over a second, and there are many.
        """
        return {"explained": dict(self._explained), "findings": self._findings, "lost": self._lost}

    def add(self, other: Mapping[str, Any]) -> None:
        """Add the findings of another process."""
        self._explained.update(other["explained"])
        self._findings.update(other["findings"])
        self._lost.update(other["lost"])

    def failures(self) -> list[str]:
        """Return the shapes with a bad plan, and the shapes that could not be explained."""
        bad = [f"{fault}: {shape}" for shape, fault in sorted(self._findings.items()) if not _excepted(shape)]
        lost = {shape: why for shape, why in self._lost.items() if not self._explained[shape]}
        return bad + [f"not explained ({why}): {shape}" for shape, why in sorted(lost.items())]

    def unused(self) -> list[str]:
        """Return exceptions that no query needed. This is no failure: some queries are sent only in a race."""
        return [begins for begins, _ in EXCEPTIONS if not any(shape.startswith(begins) for shape in self._findings)]

    def summary(self) -> str:
        """Return a line with the number of shapes."""
        return f"{sum(times > 0 for times in self._explained.values())} shapes of commands explained"


def _is_the_products() -> bool:
    """Return True if the product sent the command, and not one of its checks, which read all documents."""
    frame = sys._getframe(2)
    found = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not found and module.startswith(("squinney.testing", "tests")) and not module.startswith("tests.plugins"):
            return False  # code that tests the product, or a test's callback that the product calls
        if module.startswith("squinney."):
            if module.endswith(PROOFS) or f"{module}.{frame.f_code.co_name}".endswith(READS_EVERYTHING):
                return False
            found = True
        frame = frame.f_back  # type: ignore[assignment]
    return found


@cache
def _declared() -> set[str]:
    """Return the names of the systems' collections; collections made up by tests need no indexes."""
    return {collection.name for collection in assembly.collections()}


def _excepted(shape: str) -> bool:
    return any(shape.startswith(begins) for begins, _ in EXCEPTIONS)
