"""Histories: whether what many threads saw of one key could have happened one call after the other.

Threads record their calls in a `History`; `check` then looks, key by key, for an order that respects time (a call that
ended before another began comes first) and that a small model of the key explains. It is the search of Wing and Gong,
with a memo of what was tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

from squinney.errors import Conflict, SquinneyError, Unavailable

Outcome = Literal["ok", "refused", "unknown"]
State = Hashable


class Effect(NamedTuple):
    """What a call does to one key: `Effect("a", "take", 5)`."""

    key: str
    action: str
    value: Any = None


@dataclass(frozen=True)
class Call:
    """One call as one key saw it. `value` is what was asked, or for a read what was answered.

    One of unknown outcome never ends: it may have happened at any time after its start, or never.
    """

    action: str
    value: Any
    start: float
    end: float
    outcome: Outcome = "ok"

    @property
    def changes_nothing(self) -> bool:
        """Whether it leaves every state as it is, and only says something about it."""
        return self.action == "read" or self.outcome == "refused"

    def __str__(self) -> str:
        return f"{self.action} {self.value} ({self.outcome}, {self.start:.4f} to {self.end:.4f})"


# The state after the call, or None where the call could not have had this outcome in this state. No state is None.
Model = Callable[[Any, Call], State | None]


def amount(state: int, call: Call) -> int | None:
    """A balance or a stock: `give` adds, `take` takes no more than there is, `read` tells."""
    if call.action == "read":
        return state if call.value == state else None
    if call.action == "give":
        return state + call.value if call.outcome != "refused" else None
    if call.outcome == "refused":
        return state if state < call.value else None
    return state - call.value if state >= call.value else None


def register(state: Any, call: Call) -> Any:
    """One value: `write` puts another in its place, `read` tells."""
    if call.action == "write":
        return call.value
    return state if call.value == state else None


def sequence(state: int, call: Call) -> int | None:
    """The last number given; `take` gives a range beyond it. Numbers may be left out, none comes twice."""
    return call.value[-1] if call.value[0] > state else None


class NotLinearizable(AssertionError):
    """No order of the calls explains what they saw."""


class _Pending:
    """A call: `answer` is what it read or was given, `outcome` how it ended, None where nothing was changed."""

    answer: Any = None
    outcome: Outcome | None = None


class History:
    """Calls with their times, by key. Threads may share one."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Call]] = {}
        self._lapses: list[tuple[float, float]] = []

    @contextmanager
    def call(self, *effects: Effect, refused: Mapping[type[SquinneyError], str] | None = None) -> Iterator[_Pending]:
        """Record the call inside, for each key. `refused` tells which key a refusal says something about.

        A conflict and an `Unavailable` end here, since both are outcomes; every other error passes.
        """
        pending, start = _Pending(), time.monotonic()
        outcome: Outcome = "ok"
        try:
            yield pending
        except (Conflict, Unavailable) as error:
            key = next((key for kind, key in (refused or {}).items() if isinstance(error, kind)), None)
            if key is None and not getattr(error, "outcome_unknown", False):
                return  # it says that nothing was changed
            outcome = "unknown" if key is None else "refused"
            effects = tuple(effect for effect in effects if key in (None, effect.key))
        pending.outcome, end = outcome, time.monotonic()
        for key, action, value in effects:
            answered = value if value is not None else pending.answer
            if outcome != "unknown":
                self.add(key, Call(action, answered, start, end, outcome))
            elif answered is not None:  # numbers that nobody was given are left out
                self.add(key, Call(action, answered, start, inf, outcome))

    def add(self, key: str, call: Call) -> None:
        """Record a call whose times are known."""
        self.calls.setdefault(key, []).append(call)

    @contextmanager
    def lapse(self) -> Iterator[None]:
        """While the set changes its primary: reads that overlap it may be old, but never of what was undone.

        A new primary has all that was acknowledged, but for a moment does not know that a majority has it too.
        """
        start = time.monotonic()
        self._lapses.append((start, inf))
        try:
            yield
        finally:
            self._lapses[-1] = (start, time.monotonic())

    def check(self, key: str, model: Model, state: State) -> int:
        """How many calls of the key were explained, beginning from `state`.

        Raises: NotLinearizable.
        """
        calls = [self._allow_for_lapses(call) for call in self.calls.get(key, [])]
        try:
            check(calls, model, state)
        except NotLinearizable as error:
            raise NotLinearizable(f"{key}: {error}") from None
        return len(calls)

    def _allow_for_lapses(self, call: Call) -> Call:
        lapsed = any(call.start <= end and start <= call.end for start, end in self._lapses)
        return Call(call.action, call.value, -inf, call.end) if lapsed and call.action == "read" else call


def check(calls: Iterable[Call], model: Model, state: State) -> None:
    """Find an order in which the model explains every call of one key.

    Raises: NotLinearizable, with what comes after the longest explanation that was found.
    """
    ordered = sorted(calls, key=lambda call: call.start)
    known = sum(1 << place for place, call in enumerate(ordered) if call.outcome != "unknown")
    todo, tried, longest = [(0, state)], set[tuple[int, State]](), (0, state)
    while todo:
        done, state = todo.pop()
        done = _with_what_changes_nothing(ordered, model, done, state)
        if done & known == known:
            return
        if (done, state) in tried:
            continue
        tried.add((done, state))
        longest = max(longest, (done, state), key=lambda reached: (reached[0] & known).bit_count())
        for place in reversed(_next(ordered, done)):
            after = model(state, ordered[place])
            if after is not None:
                todo.append((done | 1 << place, after))
    stuck = "".join(f"\n  {ordered[place]}" for place in _next(ordered, longest[0]))
    counts = f"{(longest[0] & known).bit_count()} of {known.bit_count()} calls"
    raise NotLinearizable(f"explained {counts}; then it holds {longest[1]}, and none of these leads on:{stuck}")


def _with_what_changes_nothing(ordered: list[Call], model: Model, done: int, state: State) -> int:
    """Reads and refusals that fit now need no choice: whatever follows is as possible after them as before."""
    while True:
        quiet = [place for place in _next(ordered, done) if ordered[place].changes_nothing]
        fitting = sum(1 << place for place in quiet if model(state, ordered[place]) is not None)
        if not fitting:
            return done
        done |= fitting


def _next(ordered: list[Call], done: int) -> list[int]:
    """The calls that may come next: those that began before any of the others ended."""
    places, first_end = [], inf
    for place in range((~done & (done + 1)).bit_length() - 1, len(ordered)):
        if ordered[place].start > first_end:
            break
        if not done >> place & 1:
            places.append(place)
            first_end = min(first_end, ordered[place].end)
    return places
