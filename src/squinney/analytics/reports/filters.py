"""Filters of a report: what the selected requests and visits have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from squinney import checks
from squinney.analytics.reports.documents import MAX_KEY_LENGTH
from squinney.analytics.reports.requests import VISIT_TEXTS
from squinney.errors import Invalid

# What a request has, and what its visit has. `page` is a path without its query, `address` a path with it.
REQUEST_DIMENSIONS = ("page", "address", "status")
DIMENSIONS = (*REQUEST_DIMENSIONS, *VISIT_TEXTS)
ROBOTS = ("out", "in", "only")


@dataclass(frozen=True)
class Filters:
    """The value that each filtered dimension must have, and whether robots are out, in, or the only ones."""

    values: tuple[tuple[str, str], ...] = ()
    robots: str = "out"

    @classmethod
    def of(cls, values: Mapping[str, Any] | None = None, *, robots: str = "out") -> Filters:
        """Validate filters.

        A filter by a robot, or by the reason for being one, includes robots.

        Raises: `Invalid` for an unknown dimension or a value that is no text.
        """
        given = dict(values or {})
        if unknown := given.keys() - set(DIMENSIONS):
            raise Invalid(f"{min(unknown)} is not one of {', '.join(DIMENSIONS)}", field="filter")
        if robots not in ROBOTS:
            raise Invalid(f"robots must be one of {', '.join(ROBOTS)}", field="robots")
        if "status" in given and not (str(given["status"]).isdecimal() and int(given["status"]) <= 999):
            raise Invalid("status must be a number, as 404", field="status")
        checked = {
            name: checks.text(str(value), name, max_length=checks_length(name))[:MAX_KEY_LENGTH]
            for name, value in given.items()
        }
        if robots == "out" and checked.keys() & {"robot", "reason"}:
            robots = "only"
        return cls(tuple(sorted(checked.items())), robots)

    @property
    def of_requests(self) -> dict[str, str]:
        """The filters that a request itself must meet."""
        return {name: value for name, value in self.values if name in REQUEST_DIMENSIONS}

    @property
    def of_visits(self) -> dict[str, str]:
        """The filters that the request's visit must meet."""
        return {name: value for name, value in self.values if name not in REQUEST_DIMENSIONS}

    @property
    def are_none(self) -> bool:
        """Whether nothing is filtered, so that the stored numbers of days are enough."""
        return not self.values


def checks_length(name: str) -> int:
    """Return how long a value may be; longer addresses are compared by their beginning."""
    return 16_384 if name in ("page", "address", "entry", "exit") else 1_000
