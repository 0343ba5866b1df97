"""Goals: pages with a name that visits should come to, and how many visits do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, cast

from squinney import checks
from squinney.analytics.reports import queries
from squinney.analytics.reports.documents import GOALS, Goal
from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.funnels import MAX_STEP_LENGTH, numbers_of
from squinney.analytics.reports.requests import Requests
from squinney.analytics.reports.tally import visits_of
from squinney.analytics.rules import MAX_SITE_LENGTH
from squinney.errors import Invalid, LimitReached, NotFound
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db

MAX_GOALS = 50
MAX_GOAL_PAGES = 10
MAX_NAME_LENGTH = 100


class Goals:
    """The goals of sites."""

    def __init__(self, db: Db) -> None:
        self._db = pinned(db)

    @operation(reads_only=True)
    def of(self, site: str) -> list[Goal]:
        """Return the goals of a site by name."""
        return [cast(Goal, goal) for goal in queries.GOALS_OF_SITE.find(self._db, site=site)]

    @operation()
    def define(self, site: str, name: str, pages: Sequence[str]) -> Goal:
        """Define a goal of a site, or replace it: a visit reaches it by any of up to ten pages.

        A `*` at the end of a page stands for any rest of the path.

        Raises: `Invalid`; `LimitReached` beyond about fifty goals of a site.
        """
        checks.text(site, "site", max_length=MAX_SITE_LENGTH)
        checks.text(name, "name", min_length=1, max_length=MAX_NAME_LENGTH)
        if not 1 <= len(pages) <= MAX_GOAL_PAGES:
            raise Invalid(f"a goal has from one to {MAX_GOAL_PAGES} pages", field="pages", limit=MAX_GOAL_PAGES)
        for page in pages:
            checks.text(page, "pages", min_length=1, max_length=MAX_STEP_LENGTH)
        names = {goal["_id"]["name"] for goal in self.of(site)}
        # guard: the goals of a site are bounded
        if name not in names and len(names) >= MAX_GOALS:
            raise LimitReached(f"a site can have at most {MAX_GOALS} goals", limit=MAX_GOALS)
        goal: Goal = {"_id": {"site": site, "name": name}, "pages": list(pages)}
        self._db[GOALS].replace_one({"_id": goal["_id"]}, cast(Any, goal), upsert=True)
        return goal

    @operation()
    def undefine(self, site: str, name: str) -> None:
        """Remove a goal of a site.

        Raises: `NotFound`.
        """
        if not self._db[GOALS].delete_one({"_id": {"site": site, "name": name}}).deleted_count:
            raise NotFound(f"{site or 'the site without a name'} has no goal {name!r}", name=name)


@dataclass
class Reached:
    """A goal, the visits that have reached it, and their visitors: the sum of the daily ones."""

    name: str
    pages: list[str]
    visits: int = 0
    visitors: int = 0


@dataclass
class Conversions:
    """All visits of a range, and those that have reached each goal."""

    visits: int = 0
    visitors: int = 0
    goals: list[Reached] = field(default_factory=list)

    def add(self, requests: Requests, filters: Filters) -> None:
        """Add the visits of a day that meet the filters."""
        chosen = visits_of(requests, filters)
        visitors = requests.visits["visitor"]
        self.visits += sum(chosen)
        self.visitors += len(set(compress(visitors, chosen)))
        columns = requests.requests
        viewed = set(compress(zip(columns["visit"], columns["page"], strict=True), columns["view"]))
        for goal in self.goals:
            wanted: set[int] = set().union(*(numbers_of(requests.names, page) for page in goal.pages))
            visits = {visit for visit, page in viewed if page in wanted and chosen[visit]}
            goal.visits += len(visits)
            goal.visitors += len({visitors[visit] for visit in visits})

    def rate(self, goal: Reached) -> float:
        """Return the part of all visits that has reached the goal, from 0 to 1."""
        return goal.visits / self.visits if self.visits else 0.0
