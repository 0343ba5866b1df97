"""Check that what many threads saw of one key is linearizable.

Threads record their calls in a `History`. `check` then searches, key by key, for an order of the calls that a small
model of the key explains and that respects time: a call that ended before another began comes first. It is Wing and
Gong's search, which remembers the combinations it has tried.
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
    """What one call does to one key, such as `Effect("a", "take", 5)`."""

    key: str
    action: str
    value: Any = None


@dataclass(frozen=True)
class Call:
    """The part of a call that concerns one key. `value` is the argument of a write, or the result of a read.

    A call with an unknown outcome has no end: it may have happened at any time after its start, or never.
    """

    action: str
    value: Any
    start: float
    end: float
    outcome: Outcome = "ok"

    @property
    def changes_nothing(self) -> bool:
        """Whether the call leaves the state as it is: a read, or a refused write."""
        return self.action == "read" or self.outcome == "refused"

    def __str__(self) -> str:
        return f"{self.action} {self.value} ({self.outcome}, {self.start:.4f} to {self.end:.4f})"


# Returns the state after the call, or None if the call cannot have this outcome in this state. No state is None.
Model = Callable[[Any, Call], State | None]


def amount(state: int, call: Call) -> int | None:
    """Model a balance or a stock: `give` adds, `take` subtracts at most what is there, `read` returns the amount."""
    if call.action == "read":
        return state if call.value == state else None
    if call.action == "give":
        return state + call.value if call.outcome != "refused" else None
    if call.outcome == "refused":
        return state if state < call.value else None
    return state - call.value if state >= call.value else None


def register(state: Any, call: Call) -> Any:
    """Model one value: `write` replaces the value, `read` returns it."""
    if call.action == "write":
        return call.value
    return state if call.value == state else None


def sequence(state: int, call: Call) -> int | None:
    """Model a number sequence: `take` returns numbers above all earlier ones. Gaps are allowed, repeats are not."""
    return call.value[-1] if call.value[0] > state else None


class NotLinearizable(AssertionError):
    """No order of the calls explains their results."""


class _Pending:
    """A call under way. The caller sets `answer` to its result; `outcome` stays None if the call changed nothing."""

    answer: Any = None
    outcome: Outcome | None = None


class History:
    """Recorded calls with their times, by key. Threads may share one history."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Call]] = {}
        self._lapses: list[list[float]] = []  # the start and end of each

    @contextmanager
    def call(self, *effects: Effect, refused: Mapping[type[SquinneyError], str] | None = None) -> Iterator[_Pending]:
        """Record the call made in the `with` block, for each key it affects.

        `refused` maps a type of error to the key whose state caused the refusal. `Conflict` and `Unavailable` are
        suppressed, since they are outcomes; every other error is raised.
        """
        pending, start = _Pending(), time.monotonic()
        outcome: Outcome = "ok"
        try:
            yield pending
        except (Conflict, Unavailable) as error:
            key = next((key for kind, key in (refused or {}).items() if isinstance(error, kind)), None)
            if key is None and not getattr(error, "outcome_unknown", False):
                return  # this error guarantees that nothing was changed
            outcome = "unknown" if key is None else "refused"
            effects = tuple(effect for effect in effects if key in (None, effect.key))
        pending.outcome, end = outcome, time.monotonic()
        for key, action, value in effects:
            known = value if value is not None else pending.answer
            if outcome != "unknown":
                self.add(key, Call(action, known, start, end, outcome))
            elif known is not None:  # a call without a result leaves at most a gap in a sequence
                self.add(key, Call(action, known, start, inf, outcome))

    def add(self, key: str, call: Call) -> None:
        """Record a call whose start and end are known."""
        self.calls.setdefault(key, []).append(call)

    @contextmanager
    def lapse(self) -> Iterator[None]:
        """Mark the time of the `with` block as a change of primary: reads that overlap it may return older values.

        A new primary has all acknowledged writes, but for a moment does not know that a majority has them too. Reads
        still never return a value that was rolled back.
        """
        lapse = [time.monotonic(), inf]
        self._lapses.append(lapse)
        try:
            yield
        finally:
            lapse[1] = time.monotonic()

    def check(self, key: str, model: Model, state: State) -> int:
        """Check the calls of one key, starting from `state`; return how many calls there are.

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
    """Find an order in which the model explains every call of one key. Sets of calls are bit masks.

    Raises: NotLinearizable, with the calls that could not follow the longest explanation found.
    """
    ordered = sorted(calls, key=lambda call: call.start)
    required = sum(1 << index for index, call in enumerate(ordered) if call.outcome != "unknown")
    todo, tried, longest = [(0, state)], set[tuple[int, State]](), (0, state)
    while todo:
        done, state = todo.pop()
        done = _add_calls_without_effect(ordered, model, done, state)
        if done & required == required:
            return
        if (done, state) in tried:
            continue
        tried.add((done, state))
        longest = max(longest, (done, state), key=lambda reached: (reached[0] & required).bit_count())
        for index in reversed(_next_calls(ordered, done)):
            after = model(state, ordered[index])
            if after is not None:
                todo.append((done | 1 << index, after))
    stuck = "".join(f"\n  {ordered[index]}" for index in _next_calls(ordered, longest[0]))
    counts = f"{(longest[0] & required).bit_count()} of {required.bit_count()} calls"
    raise NotLinearizable(f"explained {counts}; the state is then {longest[1]}, which none of these can follow:{stuck}")


def _add_calls_without_effect(ordered: list[Call], model: Model, done: int, state: State) -> int:
    """Add the reads and refusals that fit the state. They need no search: they do not limit what may follow."""
    while True:
        without_effect = [index for index in _next_calls(ordered, done) if ordered[index].changes_nothing]
        fitting = sum(1 << index for index in without_effect if model(state, ordered[index]) is not None)
        if not fitting:
            return done
        done |= fitting


def _next_calls(ordered: list[Call], done: int) -> list[int]:
    """Return the calls that may come next: those that began before any other remaining call ended."""
    following, first_end = [], inf
    first_remaining = (~done & (done + 1)).bit_length() - 1
    for index in range(first_remaining, len(ordered)):
        if ordered[index].start > first_end:
            break
        if not done >> index & 1:
            following.append(index)
            first_end = min(first_end, ordered[index].end)
    return following
