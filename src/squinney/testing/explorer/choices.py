"""Who goes on next: every schedule by the number of its turns, fewest first, or one schedule again.

A step is a letter: that operation goes on. `a!`: operation a dies. `a~`: the server forgets what a dead operation had
open. `.`: everybody is held until some time has passed. A schedule is written as its steps, `a3 b12 a!`.
"""

from __future__ import annotations

import heapq
import random
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

__tracebackhide__ = True
Steps = tuple[str, ...]


def written(steps: Sequence[str]) -> str:
    """A schedule as text, from which `parsed` makes it again."""
    runs = ((step, len(list(group))) for step, group in groupby(steps))
    return " ".join(step if count == 1 else f"{step}{count}" for step, count in runs)


def parsed(text: str, letters: str) -> Steps:
    """The steps of a schedule that `written` wrote, of the operations with these letters.

    Raises: `ValueError`.
    """
    steps: list[str] = []
    for part in text.split():
        found = re.fullmatch(rf"([{letters}][!~]?|\.)(\d*)", part)
        if not found:
            raise ValueError(f"{text!r} is no schedule of the operations {', '.join(letters)}: see {part!r}")
        steps += [found[1]] * int(found[2] or 1)
    return tuple(steps)


class Chooser:
    """Follows the given steps, then lets whoever is on go on, but for turns at random."""

    def __init__(self, steps: Steps, *, turns: frozenset[int] = frozenset(), rng: random.Random | None = None) -> None:
        self._given = steps
        self._turns = turns
        self._rng = rng or random.Random(0)
        self.steps: list[str] = []
        self.options: list[Sequence[str]] = []

    @property
    def followed(self) -> bool:
        """Whether the given steps could all be taken."""
        return tuple(self.steps[: len(self._given)]) == self._given

    def choose(self, options: Sequence[str]) -> str:
        """One of the options, of which the first needs no turn."""
        number = len(self.steps)
        chosen = options[0]
        if number < len(self._given):
            if self._given[number] in options:
                chosen = self._given[number]
        elif number in self._turns:
            chosen = self._rng.choice(options)
        self.steps.append(chosen)
        self.options.append(options)
        return chosen


class Frontier:
    """Every schedule once: those with fewest turns first, those with as many in an order given by the seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._heap: list[tuple[int, float, Steps]] = [(0, 0.0, ())]
        self._longest = 20
        self._known: set[Steps] = {()}

    def __iter__(self) -> Iterator[Chooser]:
        """Choosers, until every schedule was tried. Every fourth has several turns at random."""
        while self._heap:
            cost, _, given = heapq.heappop(self._heap)
            chooser = Chooser(given)
            yield chooser
            self._add(chooser, len(given), cost + 1)
            if cost > 1 and self._rng.random() < 0.25:
                turns = frozenset(self._rng.sample(range(self._longest), self._rng.randint(3, 5)))
                yield Chooser((), turns=turns, rng=self._rng)

    def _add(self, chooser: Chooser, given: int, cost: int) -> None:
        """The schedules that differ from this one in one turn after what was given."""
        self._longest = max(self._longest, len(chooser.steps))
        if not chooser.followed:
            return
        for number in range(given, len(chooser.steps)):
            for other in chooser.options[number]:
                if other != chooser.steps[number]:
                    steps = (*chooser.steps[:number], other)
                    if steps in self._known:
                        continue
                    self._known.add(steps)
                    heapq.heappush(self._heap, (cost, self._rng.random(), steps))
