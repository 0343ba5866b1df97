"""The operations that an explorer gets, each known by a letter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from squinney.testing.calls import require_function, require_list

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
LETTERS = "abcdefgh"
Act = Callable[..., object]


@dataclass(frozen=True)
class Operation:
    """An operation with a name. `alone`, if given, runs instead of `act` in the serial orders it is compared with."""

    act: Act
    name: str = ""
    alone: Act | None = None


def operations_of(acts: Sequence[Act | Operation], between: Sequence[Act | Operation]) -> list[Operation]:
    """Return all of them as `Operation` objects, those of `between` last.

    Raises: `TypeError` and `ValueError`.
    """
    require_list("the operations", acts, "functions, as in explore([move, move], ...)")
    require_list("between", between, "functions")
    operations = [
        act if isinstance(act, Operation) else Operation(act, getattr(act, "__name__", "")) for act in (*acts, *between)
    ]
    if not acts:
        raise ValueError("explore needs at least one operation")
    if len(operations) > len(LETTERS):
        raise ValueError(f"explore takes at most {len(LETTERS)} operations, including `between`, not {len(operations)}")
    for letter, operation in zip(LETTERS, operations, strict=False):
        title = f"operation {letter} {operation.name}".rstrip()
        require_function(title, operation.act)
        if operation.alone is not None:
            require_function(f"alone of {title}", operation.alone)
    return operations
