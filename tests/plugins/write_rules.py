"""The rule that the crash sweep has a case for whatever writes twice, and what may break it unnoticed."""

from __future__ import annotations

import importlib
from collections.abc import Container, Iterable, Mapping
from functools import cache
from types import ModuleType

from squinney.testing.writes import Operations, operations_of
from tests.plugins.write_exceptions import ONE_AT_A_TIME, UNCALLED


def packages() -> list[ModuleType]:
    """What offers operations: every system, also those outside the product that are swept, and the patterns."""
    from squinney import assembly
    from tests.crash.case import cases

    systems = [importlib.import_module(f"squinney.{system.name}") for system in assembly.SYSTEMS]
    ours = {system.name for system in assembly.SYSTEMS}
    others = sorted({case.system for case in cases()} - ours)
    return [*systems, *map(importlib.import_module, others), *assembly.CORE]


@cache
def of_the_product() -> Operations:
    """Those of every package."""
    return operations_of(packages())


def seen_twice(most: Mapping[str, int], covered: Iterable[str]) -> list[str]:
    """What was seen to write more than once in one call."""
    missing = sorted(name for name, writes in most.items() if writes > 1 and name not in set(covered))
    return [f"{name} sent {most[name]} writes in one call; tests/crash has no case for it" for name in missing]


def by_source(most: Container[str], covered: Iterable[str]) -> list[str]:
    """What no run shows: branches that no test takes, operations that nothing calls, and names of nothing."""
    from squinney import assembly

    operations = of_the_product()
    jobs = {f"job:{job.name}" for job in assembly.jobs()}
    return [
        *may_write_twice(operations, covered, ONE_AT_A_TIME),
        *uncalled(operations, most, UNCALLED),
        *names_of_nothing({*operations.all, *jobs}, covered, [*ONE_AT_A_TIME, *UNCALLED]),
        *(f"two public operations are called {name}" for name in sorted(operations.doubles)),
    ]


def may_write_twice(operations: Operations, covered: Iterable[str], excepted: Mapping[str, str]) -> list[str]:
    """Operations with a path, taken by a test or not, on which there is more than one write."""
    known = {*covered, *excepted}
    found = [name for name in operations.writing_twice() if name not in known]
    needless = [name for name in excepted if name in operations.all and operations.all[name].writes < 2]
    return [
        *(f"{name} may send several writes, by its source; tests/crash has no case for it" for name in found),
        *(f"{name} is excepted in write_exceptions.py and needs it no more" for name in needless),
    ]


def uncalled(operations: Operations, called: Container[str], excepted: Mapping[str, str]) -> list[str]:
    """Operations that may write and that no test calls."""
    writing = [one.name for one in operations.all.values() if one.writes]
    found = [name for name in writing if name not in called and name not in excepted]
    return [f"{name} may write, and no test calls it" for name in sorted(found)]


def names_of_nothing(operations: Iterable[str], covered: Iterable[str], excepted: Iterable[str]) -> list[str]:
    """Names in `covers=`, of cases and of exceptions that are no operation."""
    known = set(operations)
    return [
        *(f"tests/crash covers {name}, which is no public operation" for name in sorted(set(covered) - known)),
        *(f"write_exceptions.py names {name}, which is no public operation" for name in sorted(set(excepted) - known)),
    ]
