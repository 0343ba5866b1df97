"""One guard, and the check that its entry matches the code."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"


@dataclass(frozen=True)
class Guard:
    """Replacing the text `out` in `module` with `instead` must make each of `tests` fail."""

    module: str
    name: str
    out: str
    instead: str
    tests: Sequence[str]

    def __str__(self) -> str:
        return f"{self.module.removeprefix('squinney.')}: {self.name}"

    @property
    def path(self) -> Path:
        """The path of the module's file, relative to `src`."""
        return _path_of(self.module)

    def mutated(self) -> str:
        """Return the module's text without the guard.

        Raises: `ValueError` if the text does not occur exactly once, or the result is not valid Python.
        """
        text, parsed = _read(self.path)
        if (times := text.count(self.out)) != 1:
            raise ValueError(f"{self}: the text occurs {times} times, not once")
        changed = text.replace(self.out, self.instead)
        try:
            if ast.dump(ast.parse(changed)) == parsed:
                raise ValueError(f"{self}: the replacement changes nothing")
        except SyntaxError as error:
            raise ValueError(f"{self}: the result is not valid Python: {error}") from error
        return changed


def guards_of(module: str, test_file: str) -> Callable[..., Guard]:
    """Return a function `guard(name, out, instead, *tests)` that makes guards of one module.

    Tests without a file name are in `test_file`.
    """

    def guard(name: str, out: str, instead: str, *tests: str) -> Guard:
        return Guard(module, name, out, instead, [test if "::" in test else f"{test_file}::{test}" for test in tests])

    return guard


@functools.cache
def _read(path: Path) -> tuple[str, str]:
    """Return a module's text and its syntax tree."""
    text = (SOURCES / path).read_text()
    return text, ast.dump(ast.parse(text))


@functools.cache
def _path_of(module: str) -> Path:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None or found.origin is None:
        raise ValueError(f"module {module} does not exist")
    return Path(found.origin).relative_to(SOURCES)


def guards() -> list[Guard]:
    """Return all guards, from the modules `guards_*.py` in this folder."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("guards_*.py"))
    return [guard for name in names for guard in importlib.import_module(f"tests.mutants.{name}").GUARDS]


def stale(listed: Sequence[Guard]) -> list[str]:
    """Return errors in the entries: missing texts, modules or tests, and duplicate names."""
    times = Counter(map(str, listed))
    faults = [f"{name}: {count} guards have this name" for name, count in times.items() if count > 1]
    for guard in listed:
        try:
            guard.mutated()
        except ValueError as error:
            faults.append(str(error))
        if not guard.tests:
            faults.append(f"{guard}: names no test")
        faults += [f"{guard}: test {test} does not exist" for test in guard.tests if not _is_test(test)]
    return faults


def _is_test(test: str) -> bool:
    path, _, name = test.partition("::")
    return name.partition("[")[0] in _tests_in(ROOT / path)


@functools.cache
def _tests_in(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
