"""Every system's demo data, loaded through a `mongos` into collections that are sharded as declared."""

from __future__ import annotations

import pytest
from tests.sharded.conftest import Sharded

from squinney import assembly
from squinney.mongo import schema


@pytest.mark.parametrize("system", assembly.SYSTEMS, ids=lambda system: system.name)
def test_a_demo_leaves_no_problem(sharded: Sharded, system: assembly.System) -> None:
    collections = [*assembly.CORE_COLLECTIONS, *system.collections]
    db = sharded(collections)
    system.demo(db)
    assert list(system.find_problems(db)) == []
    assert not system.repair(db)
    for job in system.jobs:
        job.run(db)
    system.figures(db)
    assert schema.check(db, collections) == []
