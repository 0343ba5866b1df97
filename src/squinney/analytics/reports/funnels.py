"""Funnels: how many visits come to a first page, how many of them to a second one afterwards, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress

from squinney import checks
from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.requests import Requests
from squinney.analytics.reports.tally import visits_of
from squinney.errors import Invalid

MAX_STEPS = 5
MAX_STEP_LENGTH = 200


@dataclass
class FunnelStep:
    """A step, the visits that have come so far, and their visitors: the sum of the daily ones."""

    page: str
    visits: int = 0
    visitors: int = 0


@dataclass
class Funnel:
    """All visits of a range, and those that have reached each step. A funnel of one step is a goal."""

    visits: int = 0
    visitors: int = 0
    steps: list[FunnelStep] = field(default_factory=list)

    def add(self, requests: Requests, filters: Filters) -> None:
        """Add the visits of a day that meet the filters."""
        chosen = visits_of(requests, filters)
        reached = _reached(requests, [step.page for step in self.steps])
        visitors = requests.visits["visitor"]
        self.visits += sum(chosen)
        self.visitors += len(set(compress(visitors, chosen)))
        for number, step in enumerate(self.steps):
            mask = [is_chosen and count > number for is_chosen, count in zip(chosen, reached, strict=True)]
            step.visits += sum(mask)
            step.visitors += len(set(compress(visitors, mask)))


def checked_steps(steps: Sequence[str]) -> list[str]:
    """Return the pages of a funnel. A `*` at the end stands for any rest of the path.

    Raises: `Invalid`.
    """
    if not 1 <= len(steps) <= MAX_STEPS:
        raise Invalid(f"a funnel has from one to {MAX_STEPS} steps", field="step", limit=MAX_STEPS)
    return [checks.text(step, "step", min_length=1, max_length=MAX_STEP_LENGTH) for step in steps]


def _reached(requests: Requests, steps: Sequence[str]) -> list[int]:
    """Return for each visit how many steps its page views have come to, in their order."""
    pages = [numbers_of(requests.names, step) for step in steps]
    reached = [0] * len(requests.visits["visitor"])
    columns = requests.requests
    for visit, page in compress(zip(columns["visit"], columns["page"], strict=True), columns["view"]):
        step = reached[visit]
        if step < len(pages) and page in pages[step]:
            reached[visit] += 1
    return reached


def numbers_of(names: Sequence[str], step: str) -> set[int]:
    """Return the numbers of the pages that a step, or a page of a goal, means."""
    if step.endswith("*"):
        return {number for number, name in enumerate(names) if name.startswith(step[:-1])}
    return {number for number, name in enumerate(names) if name == step}
