"""The rule that every operation with more than one write has a case in the crash sweep."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Container, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

from squinney.patterns import sequences
from squinney.testing.writes import Operations, operations_of
from squinney.transactions import two_phase

EXCEPTED = Path(__file__).parents[1] / "excepted.toml"


def packages() -> list[ModuleType]:
    """Return the packages with public operations: all systems, swept systems outside the product, the patterns."""
    from squinney import assembly
    from tests.crash.case import cases

    systems = [importlib.import_module(f"squinney.{system.name}") for system in assembly.SYSTEMS]
    ours = {system.name for system in assembly.SYSTEMS}
    others = sorted({case.system for case in cases()} - ours)
    return [*systems, *map(importlib.import_module, others), *assembly.CORE, sequences, two_phase]


@cache
def excepted(rule: str) -> frozenset[str]:
    """Return the operations that need not be `swept`, `explored` or `called`; the register has the reasons."""
    return frozenset(name for names in tomllib.loads(EXCEPTED.read_text())[rule].values() for name in names)


@cache
def of_the_product() -> Operations:
    """Return the operations of every package."""
    return operations_of(packages())


def seen_twice(most: Mapping[str, int], covered: Iterable[str]) -> list[str]:
    """Return operations that wrote more than once in one call and are not covered."""
    missing = sorted(name for name, writes in most.items() if writes > 1 and name not in set(covered))
    return [f"{name} sent {most[name]} writes in one call; tests/crash has no case for it" for name in missing]


def by_source(most: Container[str], covered: Iterable[str]) -> list[str]:
    """Return violations found in the source: untested branches, operations never called, and unknown names."""
    from squinney import assembly

    operations = of_the_product()
    jobs = {f"job:{job.name}" for job in assembly.jobs()}
    return [
        *may_write_twice(operations, covered, excepted("swept")),
        *uncalled(operations, most, excepted("called")),
        *unknown_names({*operations.all, *jobs}, covered, excepted("swept") | excepted("called")),
        *(f"two public operations are called {name}" for name in sorted(operations.duplicates)),
    ]


def may_write_twice(operations: Operations, covered: Iterable[str], exceptions: Iterable[str]) -> list[str]:
    """Return operations with more than one write on some path, whether a test takes it or not."""
    known = {*covered, *exceptions}
    found = [name for name in operations.writing_twice() if name not in known]
    needless = [name for name in exceptions if name in operations.all and operations.all[name].writes < 2]
    return [
        *(f"{name} may send several writes, according to its source; tests/crash has no case for it" for name in found),
        *(f"{name} no longer needs its exception in tests/excepted.toml" for name in needless),
    ]


def uncalled(operations: Operations, called: Container[str], exceptions: Container[str]) -> list[str]:
    """Return operations that may write and that no test calls."""
    writing = [one.name for one in operations.all.values() if one.writes]
    found = [name for name in writing if name not in called and name not in exceptions]
    return [f"{name} may write, and no test calls it" for name in sorted(found)]


def unknown_names(operations: Iterable[str], covered: Iterable[str], exceptions: Iterable[str]) -> list[str]:
    """Return names in cases, in `covers=` and in exceptions that are not operations."""
    known = set(operations)
    return [
        *(f"tests/crash covers {name}, which is not a public operation" for name in sorted(set(covered) - known)),
        *(
            f"tests/excepted.toml names {name}, which is not a public operation"
            for name in sorted(set(exceptions) - known)
        ),
    ]
