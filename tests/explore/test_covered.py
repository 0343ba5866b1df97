"""Every operation that may write more than once is in a scene: it meets other operations in every order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squinney.mongo.embedded import Embedded
from tests.crash.case import cases
from tests.explore.calls import SceneDatabases, calls_of
from tests.explore.scenes import SCENES
from tests.plugins.write_rules import excepted, of_the_product

WHAT_TO_DO = """
Add each of these to a scene in tests/explore/scenes_*.py, beside operations that change the same documents: they may
write more than once, and no scene runs them beside others. A scene counts if it calls the operation and succeeds.
Only if others explore everything that it does, name it in tests/excepted.toml, with the reason:
"""


def _writing_twice() -> set[str]:
    """Return what the crash sweep covers or must cover: what may write more than once."""
    return {*of_the_product().writing_twice(), *cases().covered()} - excepted("swept")


@pytest.fixture
def databases(mongod: Embedded) -> Iterator[SceneDatabases]:
    """Prepared databases that exist until the end of the test, when its queries are explained."""
    found = SceneDatabases(mongod.uri)
    yield found
    found.close()


def test_every_operation_with_several_writes_is_in_a_scene(databases: SceneDatabases) -> None:
    called, several = calls_of(SCENES, databases), _writing_twice()
    missing = sorted(several - called - excepted("explored"))
    assert not missing, WHAT_TO_DO + "\n".join(missing)
    needless = sorted(name for name in excepted("explored") if name in called or name not in several)
    assert not needless, f"tests/excepted.toml no longer needs {', '.join(needless)}"
