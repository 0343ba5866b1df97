"""What the operations do when they run one after the other: the measure of what they do at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations
from typing import Any, Literal

from squinney.testing.explorer.states import State

__tracebackhide__ = True
Kind = Literal["done", "refused", "gave up", "unknown"]


@dataclass(frozen=True)
class Answer:
    """What an operation answered. A refusal is known by its error's type."""

    kind: Kind
    what: Any = None

    def __str__(self) -> str:
        return self.kind if self.what is None else f"{self.kind}: {self.what}"


@dataclass(frozen=True)
class Order:
    """The operations in one order: what each answered, and what they left."""

    answers: Mapping[str, Answer]
    state: State


class Serial:
    """Every order of every subset, each run when it is first asked for."""

    def __init__(self, run: Callable[[Sequence[str], bool], Order]) -> None:
        self._run = run
        self._known: dict[tuple[Sequence[str], bool], Order] = {}
        self.settled = False  # whether what runs after a death has run: then it runs after each order too

    def after(self, order: Sequence[str]) -> Order:
        """What the operations do in this order."""
        key = (tuple(order), self.settled)
        if key not in self._known:
            self._known[key] = self._run(*key)
        return self._known[key]

    def explains(
        self, answers: Mapping[str, Answer], state: State, before: Callable[[str, str], bool], *, values: bool
    ) -> bool:
        """Whether some order gives these answers and leaves this state.

        `before(a, b)` says that a had ended when b began: then a comes first. What gave up did nothing. What ended
        unknown happened or did not.
        """
        return any(
            self._agrees(order, answers, state, values=values)
            for order in _orders(answers)
            if not any(before(later, one) for one, later in combinations(order, 2))
        )

    def explains_refusal(self, letter: str, answers: Mapping[str, Answer]) -> bool:
        """Whether the operation is refused so after some of the others, even if these came to nothing in the end."""
        others = [other for other in answers if other != letter]
        orders = chain.from_iterable(permutations(others, size) for size in range(len(others) + 1))
        return any(self.after((*order, letter)).answers[letter] == answers[letter] for order in orders)

    def _agrees(self, order: Sequence[str], answers: Mapping[str, Answer], state: State, *, values: bool) -> bool:
        found = self.after(order)
        if found.state != state:
            return False
        wanted = {letter: answers[letter] for letter in order if answers[letter].kind in ("done", "refused")}
        return all(_alike(found.answers[letter], answer, values) for letter, answer in wanted.items())

    def states(self, answers: Mapping[str, Answer]) -> Iterator[tuple[str, Order]]:
        """What the orders give, for people to compare."""
        for order in _orders(answers):
            yield "".join(order) or "nothing", self.after(order)


def _orders(answers: Mapping[str, Answer]) -> Iterator[Sequence[str]]:
    sure = [letter for letter, answer in answers.items() if answer.kind in ("done", "refused")]
    unknown = [letter for letter, answer in answers.items() if answer.kind == "unknown"]
    subsets = chain.from_iterable(combinations(unknown, size) for size in range(len(unknown) + 1))
    for subset in subsets:
        yield from permutations([*sure, *subset])


def _alike(one: Answer, other: Answer, values: bool) -> bool:
    return one == other if values or one.kind == "refused" else one.kind == other.kind
