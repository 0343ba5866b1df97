"""Remove guards one at a time and run their tests."""

from __future__ import annotations

import compileall
import contextlib
import importlib.util
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.mutants import child
from tests.mutants.guard import SOURCES, Guard

FAILED = 1  # pytest's exit code for failed tests; any other means that the tests could not run
# Modules that every child imports and no guard changes.
PRELOADED = ["pytest", "hypothesis", "pymongo", "pydantic", "PIL.Image", "markdown_it", "nh3"]


def try_all(guards: Sequence[Guard], *, processes: int) -> Iterator[tuple[Guard, str]]:
    """Yield each guard with an error message, which is empty if its tests fail as they should."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with (
        _one_server(),
        _compiled() as sources,
        ProcessPoolExecutor(processes, mp_context=context, max_tasks_per_child=1) as pool,
    ):
        running = [pool.submit(run_without, guard.path, guard.mutated(), guard.tests, sources) for guard in guards]
        for guard, future in zip(guards, running, strict=True):
            yield guard, verdict(guard, future.result())


@contextlib.contextmanager
def _one_server() -> Iterator[None]:
    """Start one MongoDB for all children."""
    from squinney.testing import plugin, servers

    with tempfile.TemporaryDirectory(prefix="squinney-mutants-", dir=servers.fast_folder()) as folder:
        os.environ[plugin.RUN_FOLDER] = folder
        try:
            with plugin.serve("shared"):
                yield
        finally:
            del os.environ[plugin.RUN_FOLDER]


@contextlib.contextmanager
def _compiled() -> Iterator[Path]:
    """Make a copy of the sources with bytecode, so that children compile only the changed module."""
    with tempfile.TemporaryDirectory(prefix="squinney-mutants-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCES, copy)
        compileall.compile_dir(copy, quiet=1)
        yield copy


def run_without(path: Path, text: str, tests: Sequence[str], sources: Path = SOURCES) -> child.Outcome:
    """Run the tests with this text in the module at `path`, relative to `src`."""
    with tempfile.TemporaryDirectory(prefix="squinney-mutant-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(sources, copy)
        changed = copy / path
        changed.write_text(text)
        Path(importlib.util.cache_from_source(str(changed))).unlink(missing_ok=True)
        return child.run(str(copy), tests)


def verdict(guard: Guard, outcome: child.Outcome) -> str:
    """Return an error message, or an empty string if every named test failed."""
    if outcome.exit_code != FAILED:
        reason = "the tests pass without it" if outcome.exit_code == 0 else "the tests could not run"
        return f"{guard}: {reason}\n{outcome.said if outcome.exit_code else ''}"
    alive = [test for test in guard.tests if not any(_belongs(failed, test) for failed in outcome.failed)]
    return f"{guard}: these tests pass without it: {', '.join(alive)}" if alive else ""


def _belongs(node: str, test: str) -> bool:
    return node == test or node.startswith(f"{test}[")


def some_of(guards: Sequence[Guard], count: int, *, day: int) -> list[Guard]:
    """Return `count` guards spread over the list, different ones each day, until all have been tried."""
    count = min(count, len(guards))
    apart = -(-len(guards) // count)
    return [guards[(day + number * apart) % len(guards)] for number in range(count)]
