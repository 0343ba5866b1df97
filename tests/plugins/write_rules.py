"""The rule that the crash sweep has a case for whatever writes twice, and what may break it unnoticed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from tests.plugins.operations import Operations, of_the_product
from tests.plugins.write_exceptions import ONE_AT_A_TIME, UNCALLED


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
    found = [one for one in operations.all.values() if one.writes > 1 and one.name not in known]
    needless = [name for name in excepted if name in operations.all and operations.all[name].writes < 2]
    return [
        *(f"{one.name} may send several writes, by its source; tests/crash has no case for it" for one in found),
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
