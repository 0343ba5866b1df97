"""Who is on a site now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import compress

from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.requests import RequestsOfDay
from squinney.analytics.reports.tally import visits_of
from squinney.mongo.schema import Document

NOW = timedelta(minutes=5)
MAX_PAGES = 10


@dataclass(frozen=True)
class Now:
    """The people on a site, and the pages that they viewed last, with how many of them."""

    visitors: int
    pages: list[tuple[str, int]]


def now_of(events: Sequence[Document], start: datetime) -> Now:
    """Return who is on a site, from the events of the last minutes."""
    requests = RequestsOfDay(start, frozenset()).add(events)
    people = visits_of(requests, Filters())
    pages = Counter(requests.names[page] for page in compress(requests.visits["exit"], people))
    ranked = sorted(pages.items(), key=lambda page: (-page[1], page[0]))
    return Now(len(set(compress(requests.visits["visitor"], people))), ranked[:MAX_PAGES])
