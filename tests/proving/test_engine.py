"""The engine of the proofs: what the two lanes show, and what a proof leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from squinney.errors import NotFound
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.service.proving.engine import Engine, ProofLimits
from squinney.service.proving.progress import PROGRESS, Progress
from squinney.service.proving.scratch import drop_leftovers, scratch_name
from squinney.service.proving.subjects import TRANSFERS, subject_named

CALM, KILLS, RACES = TRANSFERS.stages
LIMITS = ProofLimits(seconds=4, workers=2, kill_every=0.4, pause_seconds=0.05)


def scratch_databases(db: Db) -> list[str]:
    return [name for name in db.client.list_database_names() if name.startswith(("prove_by-hand", "prove_guarded"))]


def prove(db: Db, mongod: Embedded, *stages: object, limits: ProofLimits = LIMITS) -> Progress:
    """Run stages that share the time evenly; check that nothing is left, and that the progress can be sent."""
    before, seen = scratch_databases(db), []
    equal = [replace(stage, share=1 / len(stages)) for stage in stages]  # type: ignore[type-var]
    progress = Engine(db.client, mongod.uri, TRANSFERS, limits).run(equal, lambda one: seen.append(one.state))
    assert [name for name in scratch_databases(db) if name not in before] == []
    assert [state for number, state in enumerate(seen) if state not in seen[:number]] == [
        "starting",
        "running",
        "checking",
        "done",
    ]
    assert PROGRESS.validate_json(PROGRESS.dump_json(progress)) == progress
    return progress


def test_while_it_is_calm_both_lanes_keep_every_promise(db: Db, mongod: Embedded) -> None:
    for lane in prove(db, mongod, CALM).lanes:
        assert lane.operations > 10
        assert set(lane.verdict.values()) == {""}
        assert {level for _, level in lane.levels} == {lane.total}


def test_by_hand_a_promise_is_broken_and_with_guarded_steps_none(db: Db, mongod: Embedded) -> None:
    by_hand, guarded = prove(db, mongod, KILLS, RACES, limits=replace(LIMITS, seconds=8)).lanes
    assert min(len(by_hand.kills), len(guarded.kills)) >= 5
    assert any(by_hand.verdict.values())
    assert set(guarded.verdict.values()) == {""}
    assert guarded.level == guarded.total
    for lane in (by_hand, guarded):
        outcomes = [bar.outcome for row in lane.rows for bar in row]
        assert outcomes.count("done") == lane.operations
        assert {"done", "cut"} <= set(outcomes)


def test_a_leftover_of_a_dead_process_is_dropped_and_no_other(db: Db) -> None:
    own = scratch_name("by-hand")
    dead = ["prove_ledger_99999999_aa", "explorer_99999999_bb"]
    other = "prove_of_somebody_else"
    for name in (own, *dead, other):
        db.client[name]["some"].insert_one({})
    try:
        assert set(dead) <= set(drop_leftovers(db.client))
        left = db.client.list_database_names()
        assert {own, other} <= set(left)
        assert not set(dead) & set(left)
    finally:
        for name in (own, other):
            db.client.drop_database(name)


def test_what_has_no_proof_is_not_found() -> None:
    with pytest.raises(NotFound, match="identity has no proof; systems with one: analytics"):
        subject_named("identity")
