"""One guard, and whether its entry still fits the code."""

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
    """Taking `out` out of `module`, with `instead` in its place, must fail every one of `tests`."""

    module: str
    name: str
    out: str
    instead: str
    tests: Sequence[str]

    def __str__(self) -> str:
        return f"{self.module.removeprefix('squinney.')}: {self.name}"

    @property
    def path(self) -> Path:
        """The module's file, below `src`."""
        return _path_of(self.module)

    def mutated(self) -> str:
        """The module's text without the guard.

        Raises: `ValueError` where the text is not there exactly once, or leaves no Python.
        """
        text, parsed = _read(self.path)
        if (times := text.count(self.out)) != 1:
            raise ValueError(f"{self}: the text is there {times} times, not once")
        changed = text.replace(self.out, self.instead)
        try:
            if ast.dump(ast.parse(changed)) == parsed:
                raise ValueError(f"{self}: nothing is taken out")
        except SyntaxError as error:
            raise ValueError(f"{self}: what is left is no Python: {error}") from error
        return changed


def guards_of(module: str, test_file: str) -> Callable[..., Guard]:
    """Makes guards of one module: `guard(name, out, instead, *tests)`, whose tests are in that file if no other is
    named."""

    def guard(name: str, out: str, instead: str, *tests: str) -> Guard:
        return Guard(module, name, out, instead, [test if "::" in test else f"{test_file}::{test}" for test in tests])

    return guard


@functools.cache
def _read(path: Path) -> tuple[str, str]:
    """A module's text, and what it means."""
    text = (SOURCES / path).read_text()
    return text, ast.dump(ast.parse(text))


@functools.cache
def _path_of(module: str) -> Path:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None or found.origin is None:
        raise ValueError(f"there is no module {module}")
    return Path(found.origin).relative_to(SOURCES)


def guards() -> list[Guard]:
    """All of them, from the modules `guards_*.py` beside this one."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("guards_*.py"))
    return [guard for name in names for guard in importlib.import_module(f"tests.mutants.{name}").GUARDS]


def stale(listed: Sequence[Guard]) -> list[str]:
    """What is wrong with the entries themselves: texts, modules or tests that are not there, two of one name."""
    times = Counter(map(str, listed))
    faults = [f"{name}: {count} guards have this name" for name, count in times.items() if count > 1]
    for guard in listed:
        try:
            guard.mutated()
        except ValueError as error:
            faults.append(str(error))
        if not guard.tests:
            faults.append(f"{guard}: no test is named")
        faults += [f"{guard}: there is no test {test}" for test in guard.tests if not _is_test(test)]
    return faults


def _is_test(test: str) -> bool:
    path, _, name = test.partition("::")
    return name.partition("[")[0] in _tests_in(ROOT / path)


@functools.cache
def _tests_in(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
