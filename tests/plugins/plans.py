"""How the server answers what the product asks: each shape of command, explained."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote_plus

from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandStartedEvent

from squinney import assembly
from squinney.testing.plans import Command, explainable, explained_fault, shape_of
from tests.plugins.plan_exceptions import EXCEPTIONS, PROOFS, READS_EVERYTHING

TIMES_EACH = 3


class Plans:
    """Shapes seen, those still to be explained, and what was found."""

    def __init__(self) -> None:
        self._explained: Counter[str] = Counter()
        self._pending: dict[str, tuple[Any, str, Command]] = {}
        self._findings: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self._clients: dict[Any, MongoClient[Any]] = {}

    def see(self, event: CommandStartedEvent) -> None:
        """Keep one command of each shape that the product sends."""
        if str(event.command.get(event.command_name)) not in _declared():
            return
        commands = explainable(event.command_name, event.command)
        found = {shape_of(event.command_name, command): command for command in commands}
        new = {shape: command for shape, command in found.items() if self._explained[shape] < TIMES_EACH}
        if new and _is_the_products():  # asked last: it looks at the whole stack
            place = (event.connection_id, event.database_name)
            self._pending.update({shape: (*place, command) for shape, command in new.items()})

    def explain(self) -> None:
        """Explain what this test was the first to send."""
        pending, self._pending = self._pending, {}
        for shape, (address, database, command) in pending.items():
            try:
                fault = explained_fault(self._client(address)[database], command)
            except PyMongoError as error:
                self._lost[shape] = str(error)[:200]
                continue
            self._explained[shape] += 1
            if fault:
                self._findings[shape] = fault

    def _client(self, address: Any) -> MongoClient[Any]:
        if address not in self._clients:
            host, port = address
            place = quote_plus(host) if port is None else f"{host}:{port}"
            uri = f"mongodb://{place}/?directConnection=true&serverSelectionTimeoutMS=1000"
            self._clients[address] = MongoClient(uri)
        return self._clients[address]

    def result(self) -> dict[str, Any]:
        """In a form that travels between processes. The clients end with this one: to close one whose server is gone
        takes a second and more, and many tests have servers of their own."""
        return {"explained": dict(self._explained), "findings": self._findings, "lost": self._lost}

    def add(self, other: Mapping[str, Any]) -> None:
        """Take another process's findings in."""
        self._explained.update(other["explained"])
        self._findings.update(other["findings"])
        self._lost.update(other["lost"])

    def failures(self) -> list[str]:
        """Shapes without a good plan, and those that nobody could explain."""
        bad = [f"{fault}: {shape}" for shape, fault in sorted(self._findings.items()) if not _excepted(shape)]
        lost = {shape: why for shape, why in self._lost.items() if not self._explained[shape]}
        return bad + [f"not explained ({why}): {shape}" for shape, why in sorted(lost.items())]

    def unused(self) -> list[str]:
        """Exceptions that nothing asked for. A note, no failure: some are for what comes only with a race."""
        return [begins for begins, _ in EXCEPTIONS if not any(shape.startswith(begins) for shape in self._findings)]

    def summary(self) -> str:
        """How much was seen."""
        return f"{sum(times > 0 for times in self._explained.values())} shapes of commands explained"


def _is_the_products() -> bool:
    """Whether the product sends this, and not one of its checks, which read everything."""
    frame = sys._getframe(2)
    found = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not found and module.startswith(("squinney.testing", "tests")) and not module.startswith("tests.plugins"):
            return False  # what proves the product; or a callback of a test's, which the product only calls
        if module.startswith("squinney."):
            if module.endswith(PROOFS) or f"{module}.{frame.f_code.co_name}".endswith(READS_EVERYTHING):
                return False
            found = True
        frame = frame.f_back  # type: ignore[assignment]
    return found


@cache
def _declared() -> set[str]:
    """The collections of the systems; those that the tests of patterns make up have no indexes to speak of."""
    return {collection.name for collection in assembly.collections()}


def _excepted(shape: str) -> bool:
    return any(shape.startswith(begins) for begins, _ in EXCEPTIONS)
