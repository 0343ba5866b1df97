"""The shape in which steps may share a document: nobody can spend what is undecided, and no guard can be outrun.

A number is declared with its collection as a "floor" (a balance, a stock: takes lower it, gives raise it, and a guard
asks for no more and no less than is taken), a "ceiling" (places taken: takes raise it up to a limit, gives lower it),
or "free" (a count that gives change and no guard looks at). Takes count at once and gives only when they are decided:
so every undecided run makes the guards of others harder to pass, never easier, however it ends. Shared takes of one
ceiling go together only while they keep the same limit; with two limits, one could pass only before the other on one
document and only after it on the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

from bson.decimal128 import Decimal128, create_decimal128_context

from squinney.mongo.schema import Direction

if TYPE_CHECKING:
    from squinney.transactions.steps import Step

LARGEST = 2**62  # a number that is given to is no larger: above it is room for thousands of gives under way
_NO_ARRAY = {"$not": {"$type": "array"}}
LARGEST_SHARED = 2**50  # of a give that goes beside others in two phases; a larger one goes alone


def shape_of(step: Step, declared: Mapping[str, Direction]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What a shared step adds to its guard, and the limit it keeps, if it takes from a ceiling.

    Raises: `ValueError` with the reason, where it is none in which steps may go beside each other.
    """
    if not declared:
        raise ValueError(
            "a shared step is given its Collection, which declares the direction of the numbers it changes: "
            'Collection("accounts", escrow={"balance": "floor"}), Step(ACCOUNTS, ...)'
        )
    taken, given = _amounts(step.take, declared), _amounts(step.give, declared)
    if step.undo is not None and _amounts(step.undo, declared) != {path: -n for path, n in taken.items()}:
        raise ValueError("the undo of a shared take is the take with the signs changed")
    limits = [limit for path, n in taken.items() if (limit := _limit(step, path, n, declared[path]))]
    if len(limits) > 1:
        raise ValueError("a shared step takes from one ceiling at the most")
    for path, amount in given.items():
        _require_sign(path, amount, declared[path], raises=declared[path] == "floor")
    _require_nothing_else_guarded(step, taken, given, declared)
    return _countable(given), limits[0] if limits else None


def _amounts(update: Mapping[str, Any] | None, declared: Mapping[str, Direction]) -> dict[str, Any]:
    if set(update or {}) - {"$inc"}:
        raise ValueError("a shared step changes numbers by $inc, and nothing else")
    amounts = dict((update or {}).get("$inc", {}))
    for path, amount in amounts.items():
        if path not in declared:
            raise ValueError(f"a shared step changes only numbers whose direction is declared; {path} is none")
        if isinstance(amount, bool) or not isinstance(amount, int):
            raise ValueError(f"{path}: a shared step changes it by a whole number")
    return amounts


def _countable(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given to is a number, and neither an array of numbers nor within one: a comparison would take each of
    these for a number.
    """
    numbers: dict[str, Any] = {}
    for path in given:
        numbers[path] = {"$gte": -LARGEST, "$lte": LARGEST, **_NO_ARRAY}
        while "." in path:
            path = path.rpartition(".")[0]
            numbers.setdefault(path, _NO_ARRAY)
    return numbers


def _limit(step: Step, path: str, amount: Any, direction: Direction) -> dict[str, Any] | None:
    """Refuse a take that its guard does not cover; the limit, where it is a ceiling."""
    if direction == "free":
        raise ValueError(f"{path} is declared free: a shared step gives to it, and takes nothing from it")
    _require_sign(path, amount, direction, raises=direction == "ceiling")
    bound = step.guard.get(path)
    if direction == "floor":
        if bound != {"$gte": -amount}:
            raise ValueError(f'{path}: the guard of a shared take asks for what is taken: {{"$gte": {-amount}}}')
        return None
    operator, most = next(iter(bound.items())) if isinstance(bound, Mapping) and len(bound) == 1 else ("", None)
    if operator not in ("$lt", "$lte") or not isinstance(most, int | float):
        raise ValueError(f'{path}: the guard of a shared take keeps a limit: {{"$lt": number}} or {{"$lte": number}}')
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
    asked = {name: value for name, value in step.guard.items() if name not in allowed}
    for path in looked_at({**asked, **step.route}):
        if any(meet(path, number) for number in declared):
            raise ValueError(
                f"the guard of a shared step looks at {path or 'the whole document'}, which others may be changing: "
                "it must take what it asks for, or have the document to itself"
            )


def _overshot(bound: Any, direction: Direction) -> bool:
    """Whether it is a limit on the side to which gives go."""
    sides = {"floor": {"$lt", "$lte"}, "ceiling": {"$gt", "$gte"}, "free": set[str]()}
    return isinstance(bound, Mapping) and sides[direction].issuperset(bound)


def looked_at(guard: Mapping[str, Any]) -> Iterator[str]:
    """What the guard looks at. The empty path, of an `$expr` for instance, is the whole document."""
    for name, value in guard.items():
        if name in ("$and", "$or", "$nor"):
            yield from (path for part in value for path in looked_at(part))
        else:
            yield "" if name.startswith("$") else name


def meet(one: str, other: str) -> bool:
    """Whether one path leads to or through the other; a place in an array may be any place."""
    if "." not in one and "." not in other:
        return one in ("", other)
    return not one or all(name == its for name, its in zip(_names(one), _names(other), strict=False))


def _names(path: str) -> list[str]:
    """Without places in arrays: what is in an array is found without them, too."""
    return [name for name in path.split(".") if not name.isdigit() and not name.startswith("$")]


# ---- numbers ----


def added(first: Any, second: Any) -> Any:
    """The sum; a Decimal128 where either is one."""
    if isinstance(first, Decimal128) or isinstance(second, Decimal128):
        with localcontext(create_decimal128_context()):  # Python's own has fewer digits
            return Decimal128(Decimal(str(first)) + Decimal(str(second)))
    return first + second
