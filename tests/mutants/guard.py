"""One guard, and the check that the table matches the comments in the source."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
MARK = re.compile(r" *# guard(?:, (?P<lines>\d+) lines)?: (?P<name>.+)")


@dataclass(frozen=True)
class Guard:
    """Replacing the lines below the comment `# guard: name` with `replacement` must make each of `tests` fail."""

    name: str
    replacement: str
    tests: Sequence[str]

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> Path:
        """The path of the file that has the comment, relative to `src`."""
        return self._mark().path

    def mutated(self) -> str:
        """Return the file's text without the guard.

        Raises: `ValueError` if not exactly one comment has the name, or the result is the same or not valid Python.
        """
        mark = self._mark()
        lines, parsed = _read(mark.path)
        changed = mark.replaced(lines, self.replacement)
        try:
            if ast.dump(ast.parse(changed)) == parsed:
                raise ValueError(f"{self}: the replacement changes nothing")
        except SyntaxError as error:
            raise ValueError(f"{self}: the result is not valid Python: {error}") from error
        return changed

    def _mark(self) -> Mark:
        marks = marks_by_name().get(self.name, [])
        if len(marks) != 1:
            raise ValueError(f"{self}: {len(marks)} comments in the source have this name, not one")
        return marks[0]


@dataclass(frozen=True)
class Mark:
    """A comment `# guard: name`, or `# guard, N lines: name`, in a file; the guarded lines follow it."""

    path: Path
    row: int
    lines: int

    def replaced(self, text: Sequence[str], replacement: str) -> str:
        """Return the text with the replacement, which is indented like the guarded lines, instead of them."""
        following = [row for row in range(self.row + 1, len(text)) if not MARK.match(text[row])]
        guarded = following[: self.lines]
        indent = min(len(text[row]) - len(text[row].lstrip()) for row in guarded if text[row].strip())
        instead = [" " * indent + line for line in replacement.splitlines()]
        return "\n".join([*text[: guarded[0]], *instead, *text[guarded[-1] + 1 :]])


@functools.cache
def _read(path: Path) -> tuple[list[str], str]:
    """Return a file's lines and its syntax tree."""
    text = (SOURCES / path).read_text()
    return text.split("\n"), ast.dump(ast.parse(text))


@functools.cache
def marks_by_name() -> dict[str, list[Mark]]:
    """Return all guard comments in the source."""
    marks: dict[str, list[Mark]] = {}
    for file in sorted(SOURCES.rglob("*.py")):
        for row, line in enumerate(file.read_text().split("\n")):
            if comment := MARK.fullmatch(line):
                mark = Mark(file.relative_to(SOURCES), row, int(comment["lines"] or 1))
                marks.setdefault(comment["name"], []).append(mark)
    return marks


def guards() -> list[Guard]:
    """Return all guards, from the tables `guards_*.toml` in this folder."""
    tables = [tomllib.loads(path.read_text()) for path in sorted(Path(__file__).parent.glob("guards_*.toml"))]
    return [guard for table in tables for test_file, rows in table.items() for guard in _rows(test_file, rows)]


def _rows(test_file: str, rows: Mapping[str, Sequence[str]]) -> Iterator[Guard]:
    """Yield the guard of each row; tests without a file name are in `test_file`."""
    for name, (replacement, *tests) in rows.items():
        yield Guard(name, replacement, [test if "::" in test else f"{test_file}::{test}" for test in tests])


def stale(listed: Sequence[Guard]) -> list[str]:
    """Return errors in the table: missing comments or tests, and duplicate names."""
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


def unlisted(listed: Sequence[Guard]) -> list[str]:
    """Return errors for comments in the source that the table does not name."""
    names = {guard.name for guard in listed}
    return [f"{name}: not in the table" for name in sorted(marks_by_name().keys() - names)]


def _is_test(test: str) -> bool:
    path, _, name = test.partition("::")
    return name.partition("[")[0] in _tests_in(ROOT / path)


@functools.cache
def _tests_in(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
