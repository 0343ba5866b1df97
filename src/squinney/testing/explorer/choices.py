"""Choose which operation continues next: try every schedule, those with the fewest switches first, or replay one.

A step of a schedule is a letter: this operation sends its next command. `a!`: operation a dies. `a?`: it sends its
next command, a write, and gets a network error instead of the reply. `a~`: the server ends
the open transactions of the dead operation a. `.`: all operations are held while some time passes. A schedule is
written as its steps: `a3 b12 a!`.
"""

from __future__ import annotations

import heapq
import random
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

__tracebackhide__ = True
Steps = tuple[str, ...]


def format_schedule(steps: Sequence[str]) -> str:
    """Format a schedule as text, which `parse_schedule` reads."""
    runs = ((step, len(list(group))) for step, group in groupby(steps))
    return " ".join(step if count == 1 else f"{step}{count}" for step, count in runs)


def parse_schedule(text: str, letters: str) -> Steps:
    """Read the steps of a schedule of the operations with these letters.

    Raises: `ValueError`.
    """
    steps: list[str] = []
    for part in text.split():
        step = re.fullmatch(rf"([{letters}][!?~]?|\.)(\d*)", part)
        if not step:
            name = re.split(r"[^A-Za-z]", part)[0]
            why = f"{name!r} names no operation" if name and name not in letters else f"see {part!r}"
            raise ValueError(f"{text!r} is not a schedule of the operations {', '.join(letters)}: {why}")
        steps += [step[1]] * int(step[2] or 1)
    return tuple(steps)


class Chooser:
    """Follows the given steps, then continues the current operation, with random switches at the given step numbers."""

    def __init__(
        self, given: Steps, *, switches: frozenset[int] = frozenset(), rng: random.Random | None = None
    ) -> None:
        self._given = given
        self._switches = switches
        self._rng = rng or random.Random(0)
        self.steps: list[str] = []
        self.options: list[Sequence[str]] = []

    @property
    def followed(self) -> bool:
        """Whether all given steps were possible."""
        return tuple(self.steps[: len(self._given)]) == self._given

    def choose(self, options: Sequence[str]) -> str:
        """Choose one of the options. The first option continues without a switch."""
        number = len(self.steps)
        chosen = options[0]
        if number < len(self._given):
            if self._given[number] in options:
                chosen = self._given[number]
        elif number in self._switches:
            chosen = self._rng.choice(options)
        self.steps.append(chosen)
        self.options.append(options)
        return chosen


class Frontier:
    """Generates every schedule once, those with fewer switches first, and in an order that the seed decides."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._heap: list[tuple[int, float, Steps]] = [(0, 0.0, ())]
        self._longest = 20
        self._known: set[Steps] = {()}

    def __iter__(self) -> Iterator[Chooser]:
        """Yield choosers until every schedule was tried. Some have several random switches, to find deep bugs early."""
        while self._heap:
            switches, _, given = heapq.heappop(self._heap)
            chooser = Chooser(given)
            yield chooser
            self._add_variants(chooser, len(given), switches + 1)
            if switches > 1 and self._rng.random() < 0.25:
                at = frozenset(self._rng.sample(range(self._longest), self._rng.randint(3, 5)))
                yield Chooser((), switches=at, rng=self._rng)

    def _add_variants(self, chooser: Chooser, given: int, switches: int) -> None:
        """Add the schedules that differ from the played one in one step after the given ones."""
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
                    heapq.heappush(self._heap, (switches, self._rng.random(), steps))
