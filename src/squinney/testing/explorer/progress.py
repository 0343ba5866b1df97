"""Count what was played, and refuse schedules that could not have shown a fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from squinney.errors import SquinneyError
from squinney.testing.calls import one_line
from squinney.testing.effects import in_vain
from squinney.testing.explorer.actor import Actor, OperationOutcome
from squinney.testing.explorer.results import Explored

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame


class Progress:
    """What all schedules together have shown. `name_of` tells the name of an operation by its letter."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self.played: set[str] = set()
        self._name_of = name_of
        self._crashes = 0
        self._lost_replies = 0
        self._in_turn = False  # whether threads of an operation ran one after the other
        self._wrote = False
        self._changed = False  # whether one of the writes changed a document
        self._written: set[str] = set()  # the collections that completed operations wrote to
        self._completed: set[str] = set()  # operations that completed at least once
        self._failed: dict[str, BaseException] = {}  # by operation, its last error
        self._since = time.monotonic()

    def explored(self, *, gave_up: int, complete: bool) -> Explored:
        """Return the counts. `complete`: there is no schedule that was not played."""
        return Explored(
            schedules=len(self.played),
            crashes=self._crashes,
            lost_replies=self._lost_replies,
            gave_up=gave_up,
            complete=complete and not self._in_turn,
            seconds=time.monotonic() - self._since,
        )

    def add(self, schedule: str, actors: Sequence[Actor]) -> None:
        """Count a schedule that these actors have played."""
        if schedule not in self.played:
            self._crashes += any(actor.dead for actor in actors)
            self._lost_replies += any(actor.lost_reply for actor in actors)
        self.played.add(schedule)
        for actor in actors:
            self._note_effects(actor)
            self._in_turn = self._in_turn or actor.gave_work_away

    def _note_effects(self, actor: Actor) -> None:
        effects, outcome = actor.effects, actor.outcome
        self._wrote = self._wrote or bool(effects.collections)
        self._changed = self._changed or effects.changed
        if not outcome.error and not outcome.died:
            self._written |= effects.collections

    def note(self, letter: str, outcome: OperationOutcome) -> None:
        """Note how an operation ended, in a schedule or alone."""
        if outcome.error:
            self._failed[letter] = outcome.error
        elif not outcome.died:
            self._completed.add(letter)

    def require_meaningful(self, filled: Sequence[str]) -> None:
        """Refuse schedules that could not have shown a fault. `filled` are the collections with documents.

        Raises: `AssertionError` if no operation wrote, if those that completed changed no document, or if one of
        them failed in every order.
        """
        for letter, error in self._failed.items():
            if letter not in self._completed and not isinstance(error, SquinneyError):
                raise AssertionError(f"{self._name_of(letter)} failed in every order: {one_line(error)}")
        if not self._wrote:
            failed = [f"{self._name_of(letter)}: {one_line(error)}" for letter, error in sorted(self._failed.items())]
            raise AssertionError("; ".join(["no operation wrote anything, so there was nothing to explore", *failed]))
        if self._written and not self._changed:  # an operation that was refused at its write has an answer
            raise AssertionError(in_vain("the operations", self._written, filled))
