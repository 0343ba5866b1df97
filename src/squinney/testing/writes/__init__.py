"""Find, by reading the source, which public operations may write more than once and so need a crash test."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from squinney.testing.writes.operations import Operation, Operations, operations_of

__all__ = ["Operation", "Operations", "operations_of", "unswept"]


def unswept(package: ModuleType, covered: Iterable[str] = ()) -> list[str]:
    """List the public operations of a package that may write more than once and that no crash test covers.

    The public operations are the functions and methods of what `__all__` of the package names, as `Class.method` or
    `package.function`. The writes are counted in the source of the operations and of all that they call, in the
    package and in Squinney, so branches that no test runs count too. `covered` names the operations that are swept,
    or safe for another reason.

    Raises: `TypeError` if `package` is not a package, `ValueError` if it has no public operation.
    """
    if not isinstance(package, ModuleType):
        raise TypeError(f"unswept takes a package, as in `import shop; unswept(shop)`, not {package!r}")
    if isinstance(covered, str):
        raise TypeError(f"covered must be a list or a set of names, not {covered!r}")
    operations = operations_of([package])
    if not operations.all:
        raise ValueError(
            f"{package.__name__} has no public operation: list its classes and functions in `__all__` of __init__.py"
        )
    return sorted(set(operations.writing_twice()) - set(covered))
