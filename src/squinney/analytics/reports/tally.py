"""Counts a day's requests: the totals, the numbers by hour, and the rows of every panel."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import and_, itemgetter
from typing import Any, NamedTuple

from squinney.analytics.reports.documents import MAX_ROWS
from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.requests import Requests
from squinney.mongo.schema import Document

HOURS = 27  # of the longest day that any time zone has had, rounded up
TOTALS = ("visitors", "visits", "views", "requests", "bytes", "bounces", "seconds")
CHARTED = ("visitors", "visits", "views")


class Panel(NamedTuple):
    """A list of a report. `dimension` is what a click on a row filters by; `amount` names the row's last number."""

    name: str
    title: str
    dimension: str
    amount: str
    counted: str


# By visits: visitors, visits and their views. By requests: visitors, requests and their bytes, or milliseconds.
VISIT_PANELS = {
    panel.name: panel
    for panel in (
        Panel("channels", "Kinds of sources", "channel", "views", "visits"),
        Panel("referrers", "Referring sites", "referrer", "views", "visits"),
        Panel("campaigns", "Campaigns", "campaign", "views", "visits"),
        Panel("campaign_sources", "Campaign sources", "campaign_source", "views", "visits"),
        Panel("campaign_mediums", "Campaign media", "campaign_medium", "views", "visits"),
        Panel("entries", "Entry pages", "entry", "views", "visits"),
        Panel("exits", "Exit pages", "exit", "views", "visits"),
        Panel("browsers", "Browsers", "browser", "views", "visits"),
        Panel("systems", "Systems", "system", "views", "visits"),
        Panel("devices", "Devices", "device", "views", "visits"),
        Panel("countries", "Countries", "country", "views", "visits"),
    )
}
REQUEST_PANELS = {
    panel.name: panel
    for panel in (
        Panel("pages", "Pages", "page", "bytes", "views"),
        Panel("addresses", "Pages with their queries", "address", "bytes", "views"),
        Panel("not_found", "Not found (404)", "page", "bytes", "requests"),
        Panel("statuses", "Status codes", "status", "bytes", "requests"),
        Panel("large", "Most bytes", "page", "bytes", "requests"),
        Panel("slow", "Slowest", "page", "milliseconds", "requests"),
    )
}
# Robots are listed whether they are counted elsewhere or not.
ROBOT_PANELS = {
    panel.name: panel
    for panel in (
        Panel("robots", "Robots", "robot", "bytes", "requests"),
        Panel("reasons", "Why they are robots", "reason", "bytes", "requests"),
    )
}
PANELS = {**REQUEST_PANELS, **VISIT_PANELS, **ROBOT_PANELS}
# Visits without such a value are not listed.
OPTIONAL = {"referrers", "campaigns", "campaign_sources", "campaign_mediums", "countries"}
NOTHING = (0, 0, 0)
Rows = dict[str, list[int]]  # by key: visitors, count, amount


def rank(name: str) -> Any:
    """Return the order of a panel's rows: the largest first, and equal ones by key."""
    if name == "slow":
        return lambda row: (-row[1][2] / max(1, row[1][1]), row[0])
    if name == "large":
        return lambda row: (-row[1][2], row[0])
    return lambda row: (-row[1][1], row[0])


@dataclass
class Tally:
    """Numbers that add up over days: of visitors, the sum of the daily ones. `others` are rows beyond the limit."""

    totals: Counter[str] = field(default_factory=Counter)
    hours: dict[str, list[int]] = field(default_factory=lambda: {name: [0] * HOURS for name in CHARTED})
    panels: dict[str, Rows] = field(default_factory=lambda: {name: {} for name in PANELS})
    others: dict[str, list[int]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add the numbers of other visitors or of another day."""
        self.totals.update(other.totals)
        for name, hours in other.hours.items():
            self.hours[name] = _plus(self.hours[name], hours)
        for name, rows in other.panels.items():
            _add_rows(self.panels[name], rows.items())
        for name, numbers in other.others.items():
            self.others[name] = [
                number + more for number, more in zip(self.others.get(name, (0, 0, 0)), numbers, strict=True)
            ]

    def stored(self) -> Document:
        """Return the document of these numbers, with the first `MAX_ROWS` rows of each panel."""
        panels: Document = {}
        for name, rows in self.panels.items():
            if not rows:
                continue
            ranked = sorted(rows.items(), key=rank(name))
            kept, rest = ranked[:MAX_ROWS], ranked[MAX_ROWS:]
            columns = [list(column) for column in zip(*(numbers for _, numbers in kept), strict=True)]
            panels[name] = [[key for key, _ in kept], *columns]
            if rest:
                self.others[name] = [sum(column) for column in zip(*(numbers for _, numbers in rest), strict=True)]
        return {"totals": dict(self.totals), "hours": self.hours, "panels": panels, "others": self.others}

    def add_stored(self, document: Document, *, panels: Iterable[str] = PANELS) -> None:
        """Add the numbers of a stored document."""
        self.totals.update(document["totals"])
        for name in CHARTED:
            self.hours[name] = _plus(self.hours[name], document["hours"][name])
        for name in panels:
            if stored := document["panels"].get(name):
                _add_columns(self.panels[name], *stored)
            if more := document["others"].get(name):
                self.others[name] = [
                    number + other for number, other in zip(self.others.get(name, (0, 0, 0)), more, strict=True)
                ]


def _plus(numbers: Sequence[int], more: Sequence[int]) -> list[int]:
    return [number + other for number, other in zip(numbers, more, strict=True)]


def _add_columns(rows: Rows, keys: list[str], visitors: list[int], counts: list[int], amounts: list[int]) -> None:
    """Add the rows of a stored panel. A year has hundreds of thousands of them, so nothing is made for each."""
    for key, more, count, amount in zip(keys, visitors, counts, amounts, strict=True):
        if row := rows.get(key):
            row[0] += more
            row[1] += count
            row[2] += amount
        else:
            rows[key] = [more, count, amount]


def _add_rows(rows: Rows, more: Iterable[tuple[str, Any]]) -> None:
    for key, (visitors, count, amount) in more:
        row = rows.get(key)
        if row is None:
            rows[key] = [visitors, count, amount]
        else:
            row[0] += visitors
            row[1] += count
            row[2] += amount


def tally(day: Requests, filters: Filters, *, with_panels: bool = True) -> Tally:
    """Count the requests that meet the filters, and their visits."""
    done = Tally()
    selected = _Selected.of(day, filters)
    if selected is not None:
        _count(done, day, selected)
    if selected is not None and with_panels:
        _count_panels(done, day, selected)
        _robots(done, day, selected if filters.robots != "out" else _Selected.of(day, _only_robots(filters)))
    return done


def visits_of(day: Requests, filters: Filters) -> bytes:
    """Return which of the visits meet the filters, as a mask."""
    selected = _Selected.of(day, filters)
    return selected.visits if selected else bytes(len(day.visits["visitor"]))


def _only_robots(filters: Filters) -> Filters:
    return Filters(filters.values, "only")


@dataclass(frozen=True)
class _Selected:
    """Masks: the selected requests, those of them that are views of a visit, and the visits."""

    requests: bytes
    views: bytes
    visits: bytes

    @classmethod
    def of(cls, day: Requests, filters: Filters) -> _Selected | None:
        """Return the selection; None if no request can be in it."""
        numbers = _numbers(day, filters)
        if numbers is None:
            return None
        visits = _class_of(day, filters.robots)
        for name, number in numbers.items():
            if name in filters.of_visits:
                visits = bytes(map(and_, visits, _equal(day.visits[name], number)))
        requests = bytes(map(visits.__getitem__, day.requests["visit"]))
        for name, number in numbers.items():
            if name in filters.of_requests:
                requests = bytes(map(and_, requests, _equal(day.requests[name], number)))
        if filters.of_requests:
            met = bytearray(len(visits))
            for visit in set(compress(day.requests["visit"], requests)):
                met[visit] = 1
            visits = bytes(met)
        viewing = bytes(map(and_, visits, map(bool, day.visits["views"])))
        return cls(requests, bytes(map(and_, requests, day.requests["view"])), viewing)


def _numbers(day: Requests, filters: Filters) -> dict[str, int] | None:
    numbers: dict[str, int] = {}
    for name, value in filters.values:
        if name == "status":
            numbers[name] = int(value)
        elif value in day.names:
            numbers[name] = day.names.index(value)
        else:
            return None
    return numbers


def _equal(column: array[int], number: int) -> bytes:
    return bytes([value == number for value in column])


def _class_of(day: Requests, robots: str) -> bytes:
    reasons = day.visits["reason"]
    if robots == "in":
        return b"\1" * len(reasons)
    return bytes([bool(reason) for reason in reasons] if robots == "only" else [not reason for reason in reasons])


def _count(done: Tally, day: Requests, selected: _Selected) -> None:
    visits, requests = day.visits, day.requests
    of_visit = list(compress(visits["visitor"], selected.visits))
    viewed = list(compress(requests["visit"], selected.views))
    done.totals.update(
        visitors=len(set(of_visit)),
        visits=len(of_visit),
        views=len(viewed),
        requests=sum(selected.requests),
        bytes=sum(compress(requests["bytes"], selected.requests)),
        bounces=list(compress(visits["views"], selected.visits)).count(1),
        seconds=sum(compress(visits["seconds"], selected.visits)),
    )
    viewers = _visitors_of(day, viewed)
    hours = list(compress(requests["hour"], selected.views))
    _by_hour(done.hours["views"], hours)
    _by_hour(done.hours["visits"], compress(visits["hour"], selected.visits))
    _by_hour(done.hours["visitors"], map(itemgetter(0), set(zip(hours, viewers, strict=True))))


def _count_panels(done: Tally, day: Requests, selected: _Selected) -> None:
    visits, requests, names = day.visits, day.requests, day.names
    of_visit = list(compress(visits["visitor"], selected.visits))
    viewed = list(compress(requests["visit"], selected.views))
    viewers, views_of = _visitors_of(day, viewed), Counter(viewed)
    amounts = [views_of[visit] for visit in compress(range(len(selected.visits)), selected.visits)]
    for name, panel in VISIT_PANELS.items():
        keys = list(compress(visits[panel.dimension], selected.visits))
        done.panels[name] = _rows(names, keys, of_visit, amounts, without_empty=name in OPTIONAL)
    sizes = list(compress(requests["bytes"], selected.views))
    for name in ("pages", "addresses"):
        keys = list(compress(requests[PANELS[name].dimension], selected.views))
        done.panels[name] = _rows(names, keys, viewers, sizes)
    _count_requests(done, day, selected.requests)


def _visitors_of(day: Requests, visits: Iterable[int]) -> list[int]:
    return list(map(day.visits["visitor"].__getitem__, visits))


def _count_requests(done: Tally, day: Requests, mask: bytes) -> None:
    requests, names = day.requests, day.names
    visitors = _visitors_of(day, compress(requests["visit"], mask))
    pages, statuses, sizes = (list(compress(requests[name], mask)) for name in ("page", "status", "bytes"))
    done.panels["large"] = _rows(names, pages, visitors, sizes)
    by_status = _grouped(statuses, visitors, sizes)
    done.panels["statuses"] = {str(status): numbers for status, numbers in by_status.items()}
    missing = [status == 404 for status in statuses]
    done.panels["not_found"] = _rows(names, *(list(compress(column, missing)) for column in (pages, visitors, sizes)))
    millis = list(compress(requests["millis"], mask))
    timed = [number > 0 for number in millis]
    times = [number - 1 for number in compress(millis, timed)]
    done.panels["slow"] = _rows(names, list(compress(pages, timed)), list(compress(visitors, timed)), times)


def _robots(done: Tally, day: Requests, selected: _Selected | None) -> None:
    if selected is None:
        return
    of_robots = bytes([bool(day.visits["reason"][visit]) for visit in day.requests["visit"]])
    mask = bytes(map(and_, selected.requests, of_robots))
    visits = list(compress(day.requests["visit"], mask))
    visitors, sizes = _visitors_of(day, visits), list(compress(day.requests["bytes"], mask))
    for name, panel in ROBOT_PANELS.items():
        keys = list(map(day.visits[panel.dimension].__getitem__, visits))
        done.panels[name] = _rows(day.names, keys, visitors, sizes)


def _by_hour(hours: list[int], numbers: Iterable[int]) -> None:
    for hour, count in Counter(numbers).items():
        hours[min(hour, HOURS - 1)] += count


def _rows(
    names: list[str], keys: list[int], visitors: list[int], amounts: list[int], *, without_empty: bool = False
) -> Rows:
    grouped = _grouped(keys, visitors, amounts)
    if without_empty:
        grouped.pop(0, None)
    return {names[key]: numbers for key, numbers in grouped.items()}


def _grouped(keys: list[int], visitors: list[int], amounts: list[int]) -> dict[int, list[int]]:
    counts = Counter(keys)
    of_visitors = Counter(map(itemgetter(0), set(zip(keys, visitors, strict=True))))
    sums: Mapping[int, int] = defaultdict(int)
    for key, amount in zip(keys, amounts, strict=True):
        sums[key] += amount  # type: ignore[index]
    return {key: [of_visitors[key], count, sums[key]] for key, count in counts.items()}
