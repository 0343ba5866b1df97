"""Each kind of problem is created, reported, and repaired if possible."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from tests.systems.content.conftest import ADA
from tests.systems.content.pictures import jpeg
from tests.systems.content.test_comments import STRATEGIES

from squinney.content import Comments, Nodes, Photos, demo, find_problems, give_up_uploads, repair
from squinney.content.documents import Strategy
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now

LONG = {"due_at": None}


@pytest.fixture
def full(site: Db) -> Db:
    """A database with nodes, photos and comments of all strategies."""
    nodes = Nodes(site)
    folder = nodes.create(None, "folder", "folder", "F", ADA)
    Photos(site).upload(io.BytesIO(jpeg()), folder, "pic", author=ADA)
    for strategy in STRATEGIES:
        node = nodes.create(folder, strategy, "basic-page", "P", ADA)
        comments = Comments(site, strategy)
        for number in range(3):
            comments.post(node, ADA, f"no {number}")
        comments.delete(node, comments.page(node["_id"]).items[0]["slug"])
    assert list(find_problems(site)) == []
    return site


def _set(name: str, where: dict[str, Any], **fields: Any) -> Callable[[Db], Any]:
    named = {field.replace("__", "."): value for field, value in fields.items()}
    return lambda db: db[name].update_one(where, {"$set": named})


def _wrong_count(strategy: Strategy) -> Callable[[Db], Any]:
    return _set("content.nodes", {"metadata.slug": strategy}, metadata__num_comments=7)


BREAKS: list[tuple[str, bool, Callable[[Db], Any]]] = [
    ("wrong-child-count", True, _set("content.nodes", {"metadata.slug": "folder"}, metadata__num_children=9)),
    ("missing-parent", False, _set("content.nodes", {"metadata.slug": "paged"}, metadata__parent_id="gone")),
    ("missing-revision", True, lambda db: db["content.revisions"].delete_one({"metadata.slug": "folder"})),
    ("missing-file", False, lambda db: db["content.assets.files"].delete_many({})),
    ("orphan-file", True, lambda db: db["content.assets.files"].insert_one({"_id": "lost", "length": 1})),
    ("orphan-chunks", True, lambda db: db["content.assets.chunks"].insert_one({"files_id": "lost", "n": 0})),
    ("wrong-comment-count", True, _wrong_count("separate")),
    ("wrong-comment-count", True, _wrong_count("embedded")),
    ("wrong-comment-count", True, _wrong_count("paged")),
    ("wrong-page-count", True, _set("content.comment_pages", {}, count=50)),
    (
        "leftover-comments",
        True,
        lambda db: db["content.comments"].insert_one({"node_id": "x", "slug": "a", "epoch": 3}),
    ),
    (
        "leftover-comments",
        True,
        lambda db: db["content.comment_pages"].insert_one(
            {"node_id": "x", "page": 1, "epoch": 3, "count": 0, "comments": []}
        ),
    ),
]


@pytest.mark.parametrize(
    ("code", "repairable", "damage"), BREAKS, ids=[f"{c}-{n}" for n, (c, _, _) in enumerate(BREAKS)]
)
def test_a_problem_is_reported_and_repaired(full: Db, code: str, repairable: bool, damage: Callable[[Db], Any]) -> None:
    damage(full)
    found = [problem for problem in find_problems(full) if problem.code == code]
    assert found, code
    assert found[0].repairable is repairable
    repair(full)
    left = [problem for problem in find_problems(full) if problem.code == code]
    assert (left == []) is repairable


def test_live_work_is_no_problem(full: Db) -> None:
    Photos(full).replace(io.BytesIO(jpeg("blue")), Nodes(full).by_path("/folder/pic"))
    Comments(full).convert(Nodes(full).by_path("/folder/separate"), "paged")
    Comments(full).convert(Nodes(full).by_path("/folder/paged"), "embedded")
    Nodes(full).remove(Nodes(full).by_path("/folder/embedded"))
    assert list(find_problems(full)) == []
    full["content.removals"].update_many({}, {"$set": {"due_at": server_now(full)}})
    assert give_up_uploads(full)
    assert list(find_problems(full)) == []
    assert repair(full) == {}
    assert full["content.assets.files"].count_documents({}) == 2


def test_the_demo_is_whole_and_made_once(site: Db) -> None:
    demo(site)
    counts = {
        name: site[name].count_documents({}) for name in ("content.nodes", "content.comments", "content.assets.files")
    }
    demo(site)
    assert counts == {name: site[name].count_documents({}) for name in counts}
    assert counts["content.nodes"] == 9
    assert list(find_problems(site)) == []
    entry = Nodes(site).by_path("/blog/ground-squirrels")
    assert [comment["slug"].count("/") for comment in Comments(site).page(entry, order="threaded").items] == [0, 1, 0]


def test_the_schema_is_what_is_declared(full: Db) -> None:
    from squinney.content import COLLECTIONS

    assert [str(drift) for drift in schema.check(full, COLLECTIONS)] == []
