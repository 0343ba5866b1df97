"""The requests of a site's day as columns: what every number of the day, filtered or not, is counted from.

A visit is a visitor's requests without half an hour of silence, within a day. A column has a number per visit or per
request; texts are numbers too, of their place in `names`. No address and no user agent is kept.
"""

from __future__ import annotations

import re
import sys
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import bson

from squinney.analytics.reports.agents import agent_of
from squinney.analytics.reports.documents import MAX_KEY_LENGTH
from squinney.analytics.reports.visit_sources import VisitSource, source_of
from squinney.mongo.schema import Document

SILENCE = timedelta(minutes=30)
HOUR_SECONDS = 3_600
# A visitor who asks for more pages in one minute, or for so many pages of which none exists, is a robot.
MAX_VIEWS_A_MINUTE = 60
MIN_FAILURES = 5
# So is one who views so many pages without any picture, style or script, where pages have them.
MIN_VIEWS_ALONE = 5
ROBOT_NAMED, ROBOT_BEHAVIOUR, ROBOT_NO_FILES = "user agent", "behaviour", "no static files"

STATIC_FILES = re.compile(
    r"\.(css|m?js|map|png|jpe?g|gif|svg|webp|avif|ico|cur|bmp|woff2?|ttf|otf|eot|mp[34]|webm|og[gv]|wav|avi|mov|swf|zip"
    r"|gz|bz2|xz|tar|tgz|7z|rar|exe|dmg|iso|deb|rpm|pdf|csv|txt|xml|rss|atom|json|webmanifest)$",
    re.IGNORECASE,
)
_MAX_SMALL, _MAX_INT, _MAX_LONG = 2**16 - 1, 2**32 - 1, 2**63 - 1

# The columns of texts per visit; the first request that has a value decides, but for the exit the last view does.
VISIT_TEXTS = (
    "entry", "exit", "channel", "referrer", "campaign", "campaign_source", "campaign_medium", "browser", "system",
    "device", "country", "robot", "reason",
)  # fmt: skip
VISIT_NUMBERS = {"visitor": "I", "hour": "B", "seconds": "I", "views": "I"}
REQUEST_NUMBERS = {
    "visit": "I", "page": "I", "address": "I", "status": "H", "bytes": "Q", "millis": "I", "hour": "B", "view": "B",
}  # fmt: skip


def is_static(path: str) -> bool:
    """Return whether the path is that of a file that belongs to pages, or of a download, and not of a page."""
    return STATIC_FILES.search(path) is not None


@dataclass
class Requests:
    """The columns of a day. `visits` and `requests` map the names of columns to their numbers."""

    names: list[str] = field(default_factory=lambda: [""])
    visits: dict[str, Any] = field(
        default_factory=lambda: {
            **{name: array(kind) for name, kind in VISIT_NUMBERS.items()},
            **{name: array("I") for name in VISIT_TEXTS},
        }
    )
    requests: dict[str, Any] = field(
        default_factory=lambda: {name: array(kind) for name, kind in REQUEST_NUMBERS.items()}
    )

    def packed(self) -> bytes:
        """Return the columns as compressed BSON, in the byte order of little-endian machines."""
        document = {
            "names": self.names,
            "visits": {name: _bytes(column) for name, column in self.visits.items()},
            "requests": {name: _bytes(column) for name, column in self.requests.items()},
        }
        return zlib.compress(bson.encode(document), 1)

    @classmethod
    def unpacked(cls, content: bytes) -> Requests:
        """Return the columns that `packed` wrote."""
        document = bson.decode(zlib.decompress(content))
        unpacked = cls(names=document["names"])
        for columns, stored in ((unpacked.visits, document["visits"]), (unpacked.requests, document["requests"])):
            for name, column in columns.items():
                column.frombytes(stored[name])
                if sys.byteorder == "big":
                    column.byteswap()
        return unpacked


def _bytes(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column.tobytes()


class _Visitor:
    """What is known of a visitor of the day while its requests are read."""

    __slots__ = ("failures", "files", "is_fast", "is_robot", "last", "minute", "number", "user_agent", "views", "visit")

    def __init__(self, number: int, user_agent: str) -> None:
        self.number = number
        self.user_agent = user_agent
        self.visit = -1
        self.last: datetime | None = None
        self.minute: tuple[int, int] = (-1, 0)
        self.views = self.files = self.failures = 0
        self.is_robot = self.is_fast = False


class RequestsOfDay:
    """Builds the columns from the events of a day, in the order of their times."""

    def __init__(self, start: datetime, own_hosts: frozenset[str]) -> None:
        self._start, self._own_hosts = start, own_hosts
        self._found = Requests()
        self._numbers: dict[str, int] = {"": 0}
        self._visitors: dict[tuple[str, str], _Visitor] = {}
        self._of_visit: list[_Visitor] = []
        self._visits: list[dict[str, int]] = []  # the columns of the visits, by row
        self._files = self._views = 0

    def add(self, events: Iterable[Document]) -> Requests:
        """Add all events, and return the columns."""
        for event in events:
            self._add(event)
        self._end()
        return self._found

    def _add(self, event: Document) -> None:
        at: datetime = event["time"]
        path = _text(event.get("path"))
        status = event.get("status") or 0
        is_file = is_static(path)
        is_page = not is_file and event.get("method", "GET") == "GET" and "path" in event
        is_view = is_page and (200 <= status < 300 or status in (0, 304))
        visitor = self._visitor_of(event)
        visit = self._visit_of(visitor, at)
        if is_view:
            self._view(visitor, visit, event, path, at)
        elif is_page and status >= 400:
            visitor.failures += 1
        visitor.files += is_file
        self._files += is_file
        visitor.is_robot |= event.get("robot") is True or path == "/robots.txt"
        if not visit["country"] and isinstance(country := event.get("country"), str):
            visit["country"] = self._number(country)
        visit["seconds"] = min(int((at - self._start).total_seconds()) - visit["begun"], _MAX_INT)
        query = event.get("query")
        columns = self._found.requests
        columns["visit"].append(visitor.visit)
        columns["page"].append(self._number(path))
        columns["address"].append(self._number(f"{path}?{query}") if query else self._numbers[path[:MAX_KEY_LENGTH]])
        columns["status"].append(min(status, _MAX_SMALL))
        columns["bytes"].append(min(event.get("bytes") or 0, _MAX_LONG))
        columns["millis"].append(_millis(event.get("seconds")))
        columns["hour"].append(self._hour(at))
        columns["view"].append(is_view)

    def _visitor_of(self, event: Document) -> _Visitor:
        key = _text(event.get("host")), _text(event.get("user_agent"))
        visitor = self._visitors.get(key)
        if visitor is None:
            visitor = self._visitors[key] = _Visitor(len(self._visitors), key[1])
        return visitor

    def _visit_of(self, visitor: _Visitor, at: datetime) -> dict[str, int]:
        """Return the visit that the request continues, or a new one."""
        if visitor.last is None or at - visitor.last >= SILENCE:
            visitor.visit = len(self._visits)
            self._of_visit.append(visitor)
            begun = int((at - self._start).total_seconds())
            row = dict.fromkeys(VISIT_TEXTS, 0)
            self._visits.append(
                row | {"visitor": visitor.number, "hour": self._hour(at), "begun": begun, "seconds": 0, "views": 0}
            )
        visitor.last = at
        return self._visits[visitor.visit]

    def _view(self, visitor: _Visitor, visit: dict[str, int], event: Document, path: str, at: datetime) -> None:
        number = self._number(path)
        if not visit["views"]:
            source = source_of(_text(event.get("referer")), _text(event.get("query")), self._own_hosts)
            visit.update({name: self._number(value) for name, value in zip(VisitSource._fields, source, strict=True)})
            visit["entry"] = number
        visit["exit"] = number
        visit["views"] += 1
        visitor.views += 1
        self._views += 1
        minute = int(at.timestamp()) // 60
        count = visitor.minute[1] + 1 if visitor.minute[0] == minute else 1
        visitor.minute = minute, count
        visitor.is_fast |= count > MAX_VIEWS_A_MINUTE

    def _hour(self, at: datetime) -> int:
        return min(255, int((at - self._start).total_seconds()) // HOUR_SECONDS)

    def _number(self, name: str) -> int:
        name = name[:MAX_KEY_LENGTH]
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._found.names)
            self._found.names.append(name)
        return number

    def _end(self) -> None:
        """Decide which visitors are robots, now that all their requests are known, and write the columns of visits."""
        names = {visitor.number: self._agent(visitor) for visitor in self._visitors.values()}
        for row, visitor in zip(self._visits, self._of_visit, strict=True):
            row.update(names[visitor.number])
        for name, column in self._found.visits.items():
            column.extend(row[name] for row in self._visits)

    def _agent(self, visitor: _Visitor) -> dict[str, int]:
        agent = agent_of(visitor.user_agent)
        reason = self._reason(visitor, agent.robot)
        name = (agent.robot or f"says it is {agent.browser}") if reason else ""
        values = {**agent._asdict(), "robot": name, "reason": reason}
        return {name: self._number(value) for name, value in values.items()}

    def _reason(self, visitor: _Visitor, named: str) -> str:
        if named and (visitor.user_agent or self._has_agents()):
            return ROBOT_NAMED
        only_failures = visitor.failures >= MIN_FAILURES and not visitor.views
        if visitor.is_robot or visitor.is_fast or only_failures:
            return ROBOT_BEHAVIOUR
        pages_have_files = self._files >= self._views
        if pages_have_files and visitor.views >= MIN_VIEWS_ALONE and not visitor.files:
            return ROBOT_NO_FILES
        return ""

    def _has_agents(self) -> bool:
        """Return whether the log has user agents at all; where it has none, a visitor without one is no robot."""
        return any(user_agent for _, user_agent in self._visitors)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _millis(seconds: Any) -> int:
    """Return a request's time in milliseconds, plus one: 0 stands for a request whose log has no time."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
        return 0
    return min(round(seconds * 1000) + 1, _MAX_INT)
