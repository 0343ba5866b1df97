"""Run the operations one after the other, in every order: a concurrent run must end as one of these serial runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, groupby, permutations
from typing import Any, Literal

from squinney.testing.explorer.states import State

__tracebackhide__ = True
Kind = Literal["done", "refused", "gave up", "unknown"]


@dataclass(frozen=True)
class Result:
    """How an operation ended. `what` is its return value, or the type of its error."""

    kind: Kind
    what: Any = None

    def __str__(self) -> str:
        return self.kind if self.what is None else f"{self.kind}: {self.what}"


@dataclass(frozen=True)
class SerialRun:
    """The results of the operations in one order, and the state they leave."""

    results: Mapping[str, Result]
    state: State


class SerialOrders:
    """Every order of every subset of the operations. Each order is run when it is first needed."""

    def __init__(self, run: Callable[[Sequence[str], bool], SerialRun]) -> None:
        self._run = run
        self._known: dict[tuple[Sequence[str], bool], SerialRun] = {}
        self.settled = False  # whether `settle` ran after the concurrent run: then it must run after each order too

    def run(self, order: Sequence[str]) -> SerialRun:
        """Run the operations in this order, or return the result of an earlier run."""
        key = (tuple(order), self.settled)
        if key not in self._known:
            self._known[key] = self._run(*key)
        return self._known[key]

    def explain(
        self, results: Mapping[str, Result], state: State, before: Callable[[str, str], bool], *, values: bool
    ) -> bool:
        """Return whether some order gives these results and leaves this state.

        `before(a, b)` says that a had ended when b began, so a must come first. An operation that gave up must have
        changed nothing. An operation with an unknown result may have happened or not.
        """
        return any(
            self._agrees(order, results, state, values=values)
            for order in _orders(results)
            if not any(before(later, earlier) for earlier, later in combinations(order, 2))
        )

    def explain_refusal(self, letter: str, results: Mapping[str, Result]) -> bool:
        """Return whether the operation is refused in this way after some of the others, even if those were undone."""
        others = [other for other in results if other != letter]
        orders = chain.from_iterable(permutations(others, size) for size in range(len(others) + 1))
        return any(self.run((*order, letter)).results[letter] == results[letter] for order in orders)

    def _agrees(self, order: Sequence[str], results: Mapping[str, Result], state: State, *, values: bool) -> bool:
        serial = self.run(order)
        if serial.state != state:
            return False
        known = {letter: results[letter] for letter in order if results[letter].kind in ("done", "refused")}
        return all(_alike(serial.results[letter], result, values) for letter, result in known.items())

    def runs(self, results: Mapping[str, Result]) -> Iterator[tuple[str, SerialRun]]:
        """Yield each possible order and its run, for the error message."""
        for order in _orders(results):
            yield "".join(order) or "nothing", self.run(order)


def is_serial(steps: Sequence[str]) -> bool:
    """Return whether the operations ran one after the other, and none of them died, lost a reply or was held."""
    runs = [step for step, _ in groupby(steps)]
    return len(set(runs)) == len(runs) and all(step.isalpha() for step in runs)


def _orders(results: Mapping[str, Result]) -> Iterator[Sequence[str]]:
    sure = [letter for letter, result in results.items() if result.kind in ("done", "refused")]
    unknown = [letter for letter, result in results.items() if result.kind == "unknown"]
    subsets = chain.from_iterable(combinations(unknown, size) for size in range(len(unknown) + 1))
    for subset in subsets:
        yield from permutations([*sure, *subset])


def _alike(result: Result, other: Result, values: bool) -> bool:
    return result == other if values or result.kind == "refused" else result.kind == other.kind
