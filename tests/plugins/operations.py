"""Every public operation: what the systems and the shared patterns offer to be called."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from tests.plugins.possible_writes import PossibleWrites
from tests.plugins.sources import Class, Function, Module, Sources


@dataclass(frozen=True)
class Operation:
    """`name` is `Class.method`, `package.function` or `job:name`; `writes` at most so many, two for more."""

    name: str
    function: Function
    writes: int


class Operations:
    """Those that source offers, with how often each may write."""

    def __init__(self, sources: Sources, packages: list[str]) -> None:
        self._sources = sources
        self._possible = PossibleWrites(sources)
        self.all: dict[str, Operation] = {}
        self.doubles: set[str] = set()
        for package in packages:
            for name, function in self._offered(sources.modules[package]):
                self._add(name, function)

    def _add(self, name: str, function: Function) -> None:
        if name in self.all and self.all[name].function is not function:
            self.doubles.add(name)
        self.all[name] = Operation(name, function, self._possible.of(function))

    def _offered(self, package: Module) -> Iterator[tuple[str, Function]]:
        for name in public_names(package):
            found = package.named(name)
            if isinstance(found, Function):
                yield f"{package.name.rpartition('.')[2]}.{name}", found
            elif isinstance(found, Class):
                for one in self._sources.line_of(found):
                    for method in one.methods:
                        if not method.startswith("_"):
                            yield f"{found.name}.{method}", self._sources.methods_of(found, method)[0]


def public_names(module: Module) -> list[str]:
    """What `__all__` says, or every public name that the module itself makes."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return [name for name in (*module.functions, *module.classes) if not name.startswith("_")]


def packages() -> list[ModuleType]:
    """What offers operations: every system, also those outside the product that are swept, and the patterns."""
    from squinney import assembly
    from tests.crash.case import cases

    systems = [importlib.import_module(f"squinney.{system.name}") for system in assembly.SYSTEMS]
    ours = {system.name for system in assembly.SYSTEMS}
    others = sorted({case.system for case in cases().values()} - ours)
    return [*systems, *map(importlib.import_module, others), *assembly.CORE]


@cache
def of_the_product() -> Operations:
    """Those of every package, read from their sources."""
    offering = packages()
    roots = {importlib.import_module(package.__name__.partition(".")[0]) for package in offering}
    return Operations(
        Sources(*sorted(Path(str(root.__file__)).parent for root in roots)), [one.__name__ for one in offering]
    )
