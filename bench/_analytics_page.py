"""What the parts of the analytics benchmark share: an empty database, and aims beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from squinney.analytics import COLLECTIONS
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db


@dataclass(frozen=True)
class Aim:
    """A figure to be reached, or not to be exceeded, and the one that was measured."""

    what: str
    aim: float
    measured: float
    at_most: bool = False

    def __str__(self) -> str:
        reached = self.measured <= self.aim if self.at_most else self.measured >= self.aim
        bound = "at most" if self.at_most else "at least"
        verdict = "met" if reached else "**missed**"
        measured = f"{self.measured:,.0f}" if self.measured >= 100 else f"{self.measured:.3g}"
        return f"{self.what}: {bound} {self.aim:g} aimed at, {measured} measured, {verdict}"


def met(aims: Sequence[Aim]) -> str:
    """A line for each aim."""
    return "\n".join(f"- {aim}" for aim in aims)


def fresh(connection: Connection) -> Db:
    """An empty database with all collections and indexes."""
    connection.client.drop_database("bench_analytics")
    db: Db = connection.client["bench_analytics"]
    schema.apply(db, COLLECTIONS)
    return db
