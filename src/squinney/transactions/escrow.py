"""The shape in which steps may share a document, so that no run spends undecided amounts or passes an outdated guard.

A collection declares each number as a "floor" (a balance or stock: takes lower it, gives raise it, and the guard
requires exactly the amount that is taken), a "ceiling" (seats in use: takes raise it up to a limit, gives lower it), or
"free" (a counter that gives change and no guard reads). Takes are applied at once and gives only after the decision. So
every undecided run makes the guards of other runs harder to pass, never easier, whichever way it ends. Shared takes of
one ceiling run concurrently only if they have the same limit. With two limits, a run could have to come before another
on one document and after it on the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

from bson.decimal128 import Decimal128, create_decimal128_context

from squinney.mongo.schema import Direction

if TYPE_CHECKING:
    from squinney.transactions.steps import Step

LARGEST = 2**62  # the largest number that a give may raise: it leaves room for thousands of concurrent gives
_NO_ARRAY = {"$not": {"$type": "array"}}
LARGEST_SHARED = 2**50  # the largest amount of a shared step in two phases; a larger one runs natively


def shape_of(step: Step, declared: Mapping[str, Direction]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the conditions that a shared step adds to its guard, and the limit if it takes from a ceiling.

    Raises: `ValueError` with the reason, if the step does not have a shape that can be shared.
    """
    if not declared:
        raise ValueError(
            "a shared step needs its Collection, which declares the direction of the numbers it changes: "
            'Collection("accounts", escrow={"balance": "floor"}), Step(ACCOUNTS, ...)'
        )
    taken, given = _amounts(step.take, declared), _amounts(step.give, declared)
    if step.undo is not None and _amounts(step.undo, declared) != {path: -n for path, n in taken.items()}:
        raise ValueError("the undo of a shared take must be the take with the signs changed")
    limits = [limit for path, n in taken.items() if (limit := _limit(step, path, n, declared[path]))]
    if len(limits) > 1:
        raise ValueError("a shared step may take from one ceiling at most")
    for path, amount in given.items():
        _require_sign(path, amount, declared[path], raises=declared[path] == "floor")
    _require_nothing_else_guarded(step, taken, given, declared)
    return _countable(given), limits[0] if limits else None


def _amounts(update: Mapping[str, Any] | None, declared: Mapping[str, Direction]) -> dict[str, Any]:
    if set(update or {}) - {"$inc"}:
        raise ValueError("a shared step must change numbers by $inc, and nothing else")
    amounts = dict((update or {}).get("$inc", {}))
    for path, amount in amounts.items():
        if path not in declared:
            raise ValueError(f"{path}: a shared step may change only numbers whose direction is declared")
        if isinstance(amount, bool) or not isinstance(amount, int):
            raise ValueError(f"{path}: a shared step must change it by a whole number")
    return amounts


def _countable(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return conditions that each number given to is a number, and neither an array nor inside one.

    A comparison alone would also match an array that contains such a number.
    """
    numbers: dict[str, Any] = {}
    for path in given:
        numbers[path] = {"$gte": -LARGEST, "$lte": LARGEST, **_NO_ARRAY}
        while "." in path:
            path = path.rpartition(".")[0]
            numbers.setdefault(path, _NO_ARRAY)
    return numbers


def _limit(step: Step, path: str, amount: Any, direction: Direction) -> dict[str, Any] | None:
    """Reject a take that its guard does not cover; return the limit of a ceiling."""
    if direction == "free":
        raise ValueError(f"{path} is declared free: a shared step may give to it, but not take from it")
    _require_sign(path, amount, direction, raises=direction == "ceiling")
    bound = step.guard.get(path)
    if direction == "floor":
        if bound != {"$gte": -amount}:
            raise ValueError(f'{path}: the guard of a shared take must require the amount: {{"$gte": {-amount}}}')
        return None
    operator, most = next(iter(bound.items())) if isinstance(bound, Mapping) and len(bound) == 1 else ("", None)
    if operator not in ("$lt", "$lte") or not isinstance(most, int | float):
        raise ValueError(f'{path}: the guard of a shared take must be a limit: {{"$lt": number}} or {{"$lte": number}}')
    return {"path": path, operator: most + amount}


def _require_sign(path: str, amount: int, direction: Direction, *, raises: bool) -> None:
    if direction != "free" and (amount > 0) is not raises:
        how = ("lower it", "raise it") if direction == "floor" else ("raise it", "lower it")
        raise ValueError(f"{path} is declared a {direction}: shared takes {how[0]}, shared gives {how[1]}")


def _require_nothing_else_guarded(
    step: Step, taken: Mapping[str, Any], given: Mapping[str, Any], declared: Mapping[str, Direction]
) -> None:
    allowed = {
        *taken,
        *(path for path in given if step.may_overshoot and _overshot(step.guard.get(path), declared[path])),
    }
    other = {name: value for name, value in step.guard.items() if name not in allowed}
    for path in guarded_paths({**other, **step.route}):
        if any(paths_overlap(path, number) for number in declared):
            raise ValueError(
                f"the guard of a shared step reads {path or 'the whole document'}, which concurrent steps may change: "
                "take the amount that the guard requires, or do not share the step"
            )


def _overshot(bound: Any, direction: Direction) -> bool:
    """Return whether the condition is a limit in the direction of gives."""
    sides = {"floor": {"$lt", "$lte"}, "ceiling": {"$gt", "$gte"}, "free": set[str]()}
    return isinstance(bound, Mapping) and sides[direction].issuperset(bound)


def guarded_paths(guard: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths that a filter reads. The empty path, for example of an `$expr`, is the whole document."""
    for name, value in guard.items():
        if name in ("$and", "$or", "$nor"):
            yield from (path for part in value for path in guarded_paths(part))
        else:
            yield "" if name.startswith("$") else name


def paths_overlap(one: str, other: str) -> bool:
    """Return whether one path leads to or through the other; an array index matches any index."""
    if "." not in one and "." not in other:
        return one in ("", other)
    return not one or all(name == its for name, its in zip(_names(one), _names(other), strict=False))


def _names(path: str) -> list[str]:
    """Return the path's field names without array indexes, because a path may also omit these."""
    return [name for name in path.split(".") if not name.isdigit() and not name.startswith("$")]


# ---- numbers ----


def add(first: Any, second: Any) -> Any:
    """Return the sum, as a Decimal128 if either number is one."""
    if isinstance(first, Decimal128) or isinstance(second, Decimal128):
        with localcontext(create_decimal128_context()):  # Python's default context has fewer digits
            return Decimal128(Decimal(str(first)) + Decimal(str(second)))
    return first + second
