"""What a caller chooses of a report: the site, the days, and the filters."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.ranges import Days
from squinney.analytics.reports.reports import PanelRows
from squinney.analytics.reports.tally import CHARTED, PANELS
from squinney.errors import Invalid

# A spreadsheet would read a cell that begins so as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Choice:
    """A visitor's choice of a report, as the addresses of the pages contain it."""

    site: str
    range: str
    days: Days
    filters: Filters
    chart: str = CHARTED[0]

    def query(self, **changed: Any) -> str:
        """Return the query of the address for this choice, with some values replaced; None removes one."""
        values: dict[str, Any] = {"site": self.site, **self._range(), **dict(self.filters.values)}
        if self.filters.robots != "out":
            values["robots"] = self.filters.robots
        if self.chart != CHARTED[0]:
            values["chart"] = self.chart
        if changed.keys() & {"range", "from", "to"}:
            values = {name: value for name, value in values.items() if name not in ("range", "from", "to")}
        values |= changed
        return urlencode({name: value for name, value in values.items() if value is not None})

    def toggled(self, dimension: str, value: str) -> str:
        """Return the query with this filter, or without it if it is there."""
        is_set = dict(self.filters.values).get(dimension) == value
        return self.query(**{dimension: None if is_set else value})

    def has(self, dimension: str, value: str) -> bool:
        """Return whether this is one of the filters."""
        return (dimension, value) in self.filters.values

    def _range(self) -> dict[str, str]:
        if self.range:
            return {"range": self.range}
        return {"from": self.days.first.isoformat(), "to": self.days.last.isoformat()}


def parsed_day(value: str | None, name: str) -> date | None:
    """Return the day of a query; an empty field of a form is none.

    Raises: `Invalid`.
    """
    if not value:
        return None
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise Invalid(f"{name} must be a day, as 2026-05-17", field=name) from None


def parsed_filters(given: list[str]) -> dict[str, str]:
    """Return the filters of repeated `dimension=value` texts.

    Raises: `Invalid`.
    """
    pairs = [pair.partition("=") for pair in given]
    if any(not sign for _, sign, _ in pairs):
        raise Invalid("a filter is DIMENSION=VALUE, as browser=Firefox", field="filter")
    return {name: value for name, _, value in pairs}


def panel_as_csv(panel: PanelRows) -> Response:
    """Return the rows of a panel as a CSV download."""
    headers = {"Content-Disposition": f'attachment; filename="{panel.name.replace("_", "-")}.csv"'}
    return Response(csv_of(panel), media_type="text/csv", headers=headers)


def csv_of(panel: PanelRows, *, line_end: str = "\r\n") -> str:
    """Return the rows of a panel as CSV, with the sums of further ones in a last row without a key."""
    kind = PANELS[panel.name]
    written = io.StringIO()
    rows = csv.writer(written, lineterminator=line_end)
    rows.writerow([kind.dimension, "visitors", kind.counted, kind.amount])
    for row in [*panel.rows, *([panel.others] if panel.others else [])]:
        key = f"'{row.key}" if row.key.startswith(_FORMULA) else row.key
        rows.writerow([key, row.visitors, row.count, row.amount])
    return written.getvalue()
