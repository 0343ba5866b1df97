"""Ancestor arrays agree with parent pointers after any move, rename, lift or repair."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from squinney.errors import Conflict
from squinney.patterns.ancestors import Cycle, Tree

TREE = Tree(copied=("slug", "name"))
real_server = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
parents = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)


def grow(db, choices):
    """Draw a tree in which the parent of each node is an earlier node, or None."""
    db.tree.drop()
    nodes = []
    for number, choice in enumerate(choices):
        parent = (None, *nodes)[choice % (len(nodes) + 1)]
        parent_id = parent["_id"] if parent else None
        nodes.append({"_id": number, "slug": f"${number}", "name": f"n{number}", "parent": parent_id,
                      "ancestors": TREE.under(parent)})  # fmt: skip
    db.tree.insert_many(nodes)
    db.tree.create_index(list(TREE.index().keys))


def assert_sound(db):
    nodes = list(db.tree.find())
    found = TREE.rebuilt(nodes)
    assert (found.orphans, found.cycles) == ([], [])
    assert {node["_id"]: node["ancestors"] for node in nodes} == found.ancestors


@real_server
@given(parents, st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.text(max_size=3)), max_size=6))
def test_moves_and_renames_reach_every_descendant(db, choices, moves):
    grow(db, choices)
    for which, where, name in moves:
        node = db.tree.find_one({"_id": which % len(choices)})
        parent = db.tree.find_one({"_id": where % (len(choices) + 1)})  # one number is nobody: move to the root
        try:
            TREE.refuse_cycle(node["_id"], parent)
        except Cycle:
            continue
        node |= {"name": name, "parent": parent and parent["_id"], "ancestors": TREE.under(parent)}
        db.tree.replace_one({"_id": node["_id"]}, node)
        db.tree.update_many(TREE.below(node["_id"]), TREE.rewritten(node))
        assert_sound(db)


@real_server
@given(parents, st.integers(0, 99))
def test_a_node_taken_out_leaves_its_children_to_its_parent(db, choices, which):
    grow(db, choices)
    node = db.tree.find_one_and_delete({"_id": which % len(choices)})
    children = {child["_id"] for child in db.tree.find({"parent": node["_id"]})}
    db.tree.update_many(TREE.below(node["_id"]), TREE.lifted(node))
    assert_sound(db)
    assert all(db.tree.find_one({"_id": child})["parent"] == node["parent"] for child in children)


@real_server
@given(st.lists(st.one_of(st.none(), st.integers(0, 14)), min_size=1, max_size=12))
def test_any_pointers_are_repaired_into_a_forest(db, pointers):
    db.tree.drop()
    db.tree.insert_many({"_id": n, "slug": "", "name": "", "parent": p, "ancestors": [{"_id": "junk"}]} for n, p in
                        enumerate(pointers))  # fmt: skip
    found = TREE.rebuilt(list(db.tree.find()))
    assert set(found.orphans) == {n for n, p in enumerate(pointers) if p is not None and p >= len(pointers)}
    writes = list(TREE.repairs(list(db.tree.find())))
    if writes:
        db.tree.bulk_write(writes)
    assert_sound(db)
    assert list(TREE.repairs(list(db.tree.find()))) == []
    kept = {node["_id"]: node["parent"] for node in db.tree.find()}
    changed = [n for n, p in enumerate(pointers) if kept[n] != p]
    assert sorted(changed) == sorted([*found.orphans, *found.cycles])


def test_a_repair_spares_a_node_that_was_moved_meanwhile(db):
    grow(db, [0, 1, 1])
    db.tree.update_one({"_id": 2}, {"$set": {"ancestors": []}})
    writes = list(TREE.repairs(list(db.tree.find())))
    db.tree.update_one({"_id": 2}, {"$set": {"parent": 1}})
    assert db.tree.bulk_write(writes).modified_count == 0


def test_a_deep_chain_is_rebuilt_without_recursion():
    nodes = [{"_id": n, "parent": n + 1 if n < 2000 else None} for n in range(2001)]
    assert len(Tree().rebuilt(nodes).ancestors[0]) == 2000


def test_a_move_under_itself_or_its_descendant_is_refused(db):
    grow(db, [0, 1, 2])
    below = db.tree.find_one({"_id": 2})
    for node_id in (0, 1, 2):
        with pytest.raises(Cycle) as refused:
            TREE.refuse_cycle(node_id, below)
        assert isinstance(refused.value, Conflict)
    TREE.refuse_cycle(2, db.tree.find_one({"_id": 0}))
    TREE.refuse_cycle(2, None)


def test_depth_below_and_the_index_that_serves_it(db):
    grow(db, [0, 1, 2, 3])
    assert db.tree.aggregate(TREE.deepest(1)).next() == {"_id": None, "depth": 3}
    assert list(db.tree.aggregate(TREE.deepest(3))) == []
    plan = db.tree.find(TREE.below(1)).explain()["queryPlanner"]["winningPlan"]
    assert plan.get("queryPlan", plan)["inputStage"]["stage"] == "IXSCAN"
