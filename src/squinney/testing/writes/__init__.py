"""Find, by reading the source, which public operations may write more than once and so need a crash test."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType

from squinney.testing.writes.operations import Operations, PublicOperation, operations_of

__all__ = ["Operations", "PublicOperation", "operations_of", "unswept"]


def unswept(package: ModuleType, covered: Iterable[str] = ()) -> list[str]:
    """List the public operations of a package that may write more than once and that no crash test covers.

    The public operations are the functions and methods of what `__all__` of the package names, as `Class.method` or
    `package.function`. The writes are counted in the source of the operations and of all that they call, in the
    package and in Squinney, so branches that no test runs count too. `covered` names the operations that are swept,
    or safe for another reason. A name in it that neither this nor another imported package has is listed too.

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
    covered = set(covered)
    unknown = [name for name in covered - set(operations.all) if not name.startswith("job:") and not _exists(name)]
    return [
        *sorted(set(operations.writing_twice()) - covered),
        *(f"{name} (in covered, but there is no such operation)" for name in sorted(unknown)),
    ]


def _exists(name: str) -> bool:
    """Return whether an imported module has this `Class.method` or `package.function`: cases may be of two packages."""
    owner, _, last = name.rpartition(".")
    modules = [(path, getattr(module, "__dict__", {})) for path, module in list(sys.modules.items())]
    return any(
        hasattr(offered.get(owner), last) or (path.rpartition(".")[2] == owner and last in offered)
        for path, offered in modules
    )
