"""List the public operations of packages, with the number of writes that each may send."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import squinney
from squinney.testing.writes.possible import PossibleWrites
from squinney.testing.writes.sources import Class, Function, Module, Sources


@dataclass(frozen=True)
class PublicOperation:
    """A public operation. `name` is `Class.method` or `package.function`; `writes` is 0, 1, or 2 for two or more."""

    name: str
    function: Function
    writes: int


class Operations:
    """The public operations of some packages, by name. `duplicates` are names that two operations share."""

    def __init__(self, sources: Sources, packages: list[str]) -> None:
        self._sources = sources
        self._possible = PossibleWrites(sources)
        self.all: dict[str, PublicOperation] = {}
        self.duplicates: set[str] = set()
        for package in packages:
            for name, function in self._public(sources.modules[package]):
                self._add(name, function)

    def writing_twice(self) -> list[str]:
        """Return the names of the operations with a path, run by a test or not, that has more than one write."""
        return [name for name, operation in self.all.items() if operation.writes > 1]

    def _add(self, name: str, function: Function) -> None:
        if name in self.all and self.all[name].function is not function:
            self.duplicates.add(name)
        self.all[name] = PublicOperation(name, function, self._possible.of(function))

    def _public(self, package: Module) -> Iterator[tuple[str, Function]]:
        for name in public_names(package):
            offered = package.named(name)
            if isinstance(offered, Function):
                yield f"{package.name.rpartition('.')[2]}.{name}", offered
            elif isinstance(offered, Class):
                for owner in self._sources.with_bases(offered):
                    for method in owner.methods:
                        if not method.startswith("_"):
                            yield f"{offered.name}.{method}", self._sources.methods_of(offered, method)[0]


def public_names(module: Module) -> list[str]:
    """Return the names in `__all__`, or without it every public function and class that the module defines."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return [name for name in (*module.functions, *module.classes) if not name.startswith("_")]


def operations_of(packages: Sequence[ModuleType]) -> Operations:
    """Read the operations of some packages from their source and Squinney's.

    Raises: `ValueError` for a module that is not in a package.
    """
    tops = {squinney, *(importlib.import_module(package.__name__.partition(".")[0]) for package in packages)}
    if modules := [top.__name__ for top in tops if not hasattr(top, "__path__")]:
        raise ValueError(f"{', '.join(sorted(modules))} must be a package (a folder with an __init__.py), not a module")
    folders = sorted(Path(str(top.__file__)).parent for top in tops)
    return Operations(Sources(*folders), [package.__name__ for package in packages])
