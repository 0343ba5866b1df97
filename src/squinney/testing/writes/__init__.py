"""Which public operations may write more than once, and so must survive a crash in between: told by their source."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from squinney.testing.writes.operations import Operation, Operations, operations_of

__all__ = ["Operation", "Operations", "operations_of", "unswept"]


def unswept(package: ModuleType, covered: Iterable[str] = ()) -> list[str]:
    """The public operations of a package that may write more than once and that no crash test covers.

    They are read from the source, so branches that no test takes count too: what `__all__` of the package offers, as
    `Class.method` or `package.function`, and all that it calls there and in Squinney. `covered` names those that are
    swept, or safe for another reason.

    Raises: `TypeError` where it is no package, `ValueError` where it offers nothing.
    """
    if not isinstance(package, ModuleType):
        raise TypeError(f"unswept takes a package, as in `import shop; unswept(shop)`, not {package!r}")
    if isinstance(covered, str):
        raise TypeError(f"covered must be a list or a set of names, not {covered!r}")
    operations = operations_of([package])
    if not operations.all:
        raise ValueError(f"{package.__name__} offers nothing: name its operations in `__all__` of its __init__.py")
    return sorted(set(operations.writing_twice()) - set(covered))
