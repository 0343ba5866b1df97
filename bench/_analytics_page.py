"""Shared by the parts of the analytics benchmark: an empty database, and targets with the measured values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from squinney.analytics import COLLECTIONS
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db


@dataclass(frozen=True)
class Aim:
    """A target, as a minimum or a maximum, and the measured value."""

    what: str
    aim: float
    measured: float
    at_most: bool = False

    def __str__(self) -> str:
        reached = self.measured <= self.aim if self.at_most else self.measured >= self.aim
        bound = "at most" if self.at_most else "at least"
        verdict = "met" if reached else "**missed**"
        measured = f"{self.measured:,.0f}" if self.measured >= 100 else f"{self.measured:.3g}"
        return f"{self.what}: target {bound} {self.aim:g}, measured {measured}, {verdict}"


def met(aims: Sequence[Aim]) -> str:
    """Return a line of text for each target."""
    return "\n".join(f"- {aim}" for aim in aims)


def fresh(connection: Connection) -> Db:
    """Return an empty database with all collections and indexes."""
    connection.client.drop_database("bench_analytics")
    db: Db = connection.client["bench_analytics"]
    schema.apply(db, COLLECTIONS)
    return db
