"""What a caller chooses of a report: the site, the days, and the filters."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.hosts import Host
from squinney.analytics.reports.ranges import Days
from squinney.analytics.reports.reports import PanelRows
from squinney.analytics.reports.tally import CHARTED, PANELS
from squinney.errors import Invalid

# A spreadsheet would read a cell that begins so as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class ReportChoice:
    """A visitor's choice of a report, as the addresses of the pages contain it."""

    site: str
    range: str
    days: Days
    filters: Filters
    chart: str = CHARTED[0]
    token: str = ""  # of a link to share the site

    @property
    def base(self) -> str:
        """The path of the report's page, below which are those of its panels."""
        return "/analytics/shared" if self.token else "/analytics"

    def query(self, **changed: Any) -> str:
        """Return the query of the address for this choice, with some values replaced; None removes one."""
        shown = {"token": self.token} if self.token else {"site": self.site}
        values: dict[str, Any] = {**shown, **self._range(), **dict(self.filters.values)}
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
    return _download(panel.name.replace("_", "-"), csv_of(panel))


def csv_of(panel: PanelRows, *, line_end: str = "\r\n") -> str:
    """Return the rows of a panel as CSV, with the sums of further ones in a last row without a key."""
    kind = PANELS[panel.name]
    rows = [*panel.rows, *([panel.others] if panel.others else [])]
    head = [kind.dimension, "visitors", kind.counted, kind.amount]
    return _written(head, [[row.key, row.visitors, row.count, row.amount] for row in rows], line_end)


def hosts_as_csv(hosts: Sequence[Host]) -> Response:
    """Return addresses as a CSV download."""
    return _download("hosts", csv_of_hosts(hosts))


def csv_of_hosts(hosts: Sequence[Host], *, line_end: str = "\r\n") -> str:
    """Return addresses as CSV."""
    head = ["host", "requests", "views", "bytes", "last_seen"]
    rows = [[host.host, host.requests, host.views, host.bytes, host.last_seen.isoformat()] for host in hosts]
    return _written(head, rows, line_end)


def _download(name: str, content: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return Response(content, media_type="text/csv", headers=headers)


def _written(head: list[str], rows: Sequence[list[Any]], line_end: str) -> str:
    """Return CSV in which no cell of the first column, which strangers choose, is read as a formula."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator=line_end)
    writer.writerow(head)
    for key, *numbers in rows:
        writer.writerow([f"'{key}" if key.startswith(_FORMULA) else key, *numbers])
    return written.getvalue()
