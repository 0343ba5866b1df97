"""Test tools that crash, interleave and measure operations on a real MongoDB. They work for your own operations too.

`squinney.testing.plugin` is the pytest plugin. pytest loads it in every run, so the names of this package are imported
lazily, at their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squinney.testing.audit import Audit
    from squinney.testing.children import preload
    from squinney.testing.crash import CrashPoint, NotCrashSafe, Sweep, Swept, sweep
    from squinney.testing.crash.cases import Case, Cases
    from squinney.testing.explorer import Explored, Explorer, Operation, Refuted
    from squinney.testing.writes import unswept

__all__ = [
    "Audit",
    "Case",
    "Cases",
    "CrashPoint",
    "Explored",
    "Explorer",
    "NotCrashSafe",
    "Operation",
    "Refuted",
    "Sweep",
    "Swept",
    "preload",
    "sweep",
    "unswept",
]

_MODULES = {
    "squinney.testing.audit": ("Audit",),
    "squinney.testing.children": ("preload",),
    "squinney.testing.crash": ("CrashPoint", "NotCrashSafe", "Sweep", "Swept", "sweep"),
    "squinney.testing.crash.cases": ("Case", "Cases"),
    "squinney.testing.explorer": ("Explored", "Explorer", "Operation", "Refuted"),
    "squinney.testing.writes": ("unswept",),
}


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> Any:
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
