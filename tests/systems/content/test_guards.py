"""Guards against concurrent changes: each test lets another operation run at the worst moment."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from tests.patterns.interrupt import meanwhile, stalled_client
from tests.systems.content.conftest import ADA, BEN
from tests.systems.content.pictures import noise

from squinney.content import (
    Comments,
    Moderation,
    Node,
    Nodes,
    UnknownNode,
    delete_leftovers,
    find_problems,
    give_up_uploads,
    repair,
)
from squinney.content.comments import comments as comments_module
from squinney.content.comments import conversion
from squinney.content.files import uploads
from squinney.errors import Invalid
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now
from squinney.patterns.nonces import EditConflict
from squinney.transactions import Busy, Stale, Transactions

NODES = "content.nodes"
COMMIT = 3  # the number of this write of a post, after those of the comment and the node


def nodes_in(db: Db) -> Nodes:
    return Nodes(db, transactions=Transactions(db, timeout_seconds=10))


def comments_in(db: Db, strategy: Any = "separate") -> Comments:
    return Comments(db, strategy, transactions=Transactions(db, timeout_seconds=10), only_nodes=True)


@pytest.fixture
def node(site: Db) -> Node:
    return Nodes(site).create(None, "page", "basic-page", "Page", ADA)


def texts(comments: Comments, node: Node) -> list[str]:
    return sorted(comment["text"] for comment in comments.page(node["_id"]).items)


# ---- flags ----


@pytest.mark.parametrize("flagged_before", [False, True])
def test_a_comment_of_a_page_removed_meanwhile_is_not_flagged(
    site: Db, node: Node, flagged_before: bool, mongod: Embedded
) -> None:
    slug = comments_in(site).post(node, ADA, "rude")["slug"]
    if flagged_before:
        Moderation(site, comments_in(site)).flag(node, slug, "cid")

    def remove() -> None:
        Nodes(site).remove(node)
        delete_leftovers(site)

    with meanwhile(mongod, site, remove) as db, pytest.raises(UnknownNode):
        Moderation(db, comments_in(db)).flag(node["_id"], slug, "ben")
    assert list(site["content.flags"].find()) == []


# ---- nodes ----


def test_an_edit_that_another_overtakes_is_a_conflict(site: Db, node: Node, mongod: Embedded) -> None:
    nonce = node["metadata"]["nonce"]
    with (
        meanwhile(mongod, site, lambda: Nodes(site).edit(node, nonce, {"title": "Theirs"})) as db,
        pytest.raises(EditConflict),
    ):
        nodes_in(db).edit(node["_id"], nonce, {"title": "Ours"})
    assert Nodes(site).by_id(node["_id"])["metadata"]["title"] == "Theirs"


def test_a_move_keeps_what_was_saved_meanwhile(site: Db, node: Node, mongod: Embedded) -> None:
    nonce = node["metadata"]["nonce"]
    with meanwhile(mongod, site, lambda: Nodes(site).edit(node, nonce, {"title": "Saved"})) as db:
        nodes_in(db).move(node["_id"], None, "moved")
    moved = Nodes(site).by_path("/moved")["metadata"]
    assert (moved["title"], moved["version"]) == ("Saved", 3)
    assert list(find_problems(site)) == []


def test_two_overlapping_moves_make_no_cycle(site: Db, mongod: Embedded) -> None:
    nodes = Nodes(site)
    one = nodes.create(None, "one", "folder", "One", ADA)
    other = nodes.create(None, "other", "folder", "Other", ADA)
    inner = nodes.create(other, "inner", "folder", "Inner", ADA)
    with meanwhile(mongod, site, lambda: nodes.move(other["_id"], one["_id"])) as db, pytest.raises(Invalid):
        nodes_in(db).move(one["_id"], inner["_id"])
    assert nodes.path_of(inner["_id"]) == "/one/other/inner"


def test_repair_sets_no_count_that_has_changed_since(site: Db, mongod: Embedded) -> None:
    folder = Nodes(site).create(None, "folder", "folder", "Folder", ADA)
    site[NODES].update_one({"_id": folder["_id"]}, {"$set": {"metadata.num_children": 5}})

    def add() -> None:
        Nodes(site).create(folder["_id"], "new", "basic-page", "New", ADA)

    with meanwhile(mongod, site, add, "update", NODES) as db:
        assert not repair(db)
    assert Nodes(site).by_id(folder["_id"])["metadata"]["num_children"] == 6
    assert repair(site) == {"wrong-child-count": 1}
    assert Nodes(site).by_id(folder["_id"])["metadata"]["num_children"] == 1


def test_an_upload_that_was_seen_meanwhile_is_left_alone(site: Db, mongod: Embedded) -> None:
    picture = noise(90)
    uploads.Receiver(site, by="ada", chunk_bytes=4_000)._store(
        io.BytesIO(picture), picture[:100], "image/jpeg", 10**9, False
    )

    def is_seen() -> None:
        site["content.uploads"].update_one({}, {"$set": {"seen": server_now(site)}})

    with meanwhile(mongod, site, is_seen) as db:
        assert not give_up_uploads(db, stalled_seconds=-1)
    assert site["content.uploads"].count_documents({}) == 1


# ---- comments ----


def test_no_node_is_removed_while_its_discussion_switches(site: Db, node: Node) -> None:
    comments = comments_in(site)
    comments.post(node, ADA, "kept")
    conversion._freeze(site, comments._discussed(node["_id"]), 1)
    nodes = Nodes(site, transactions=Transactions(site, timeout_seconds=2))
    with pytest.raises((Busy, Stale)):
        nodes.remove(node["_id"])
    assert texts(comments, node) == ["kept"]


def test_no_comment_is_written_while_the_discussion_switches(
    site: Db, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comments_module, "WAIT_SECONDS", 0.1)
    comments = comments_in(site)
    comments.post(node, ADA, "before")
    conversion._freeze(site, comments._discussed(node["_id"]), 1)
    with pytest.raises(Busy):
        comments.post(node["_id"], ADA, "too late")
    assert texts(comments, node) == ["before"]


def test_a_comment_is_not_written_where_the_discussion_was(site: Db, node: Node, mongod: Embedded) -> None:
    comments = comments_in(site)
    comments.post(node, ADA, "before")
    with meanwhile(mongod, site, lambda: comments.convert(node["_id"], "paged")) as db:
        comments_in(db).post(node["_id"], BEN, "after")
    assert texts(comments, node) == ["after", "before"]


def test_a_comment_that_is_answered_meanwhile_keeps_its_place(site: Db, node: Node, mongod: Embedded) -> None:
    comments = comments_in(site)
    slug = comments.post(node, ADA, "question")["slug"]
    with meanwhile(mongod, site, lambda: comments.post(node["_id"], BEN, "answer", slug)) as db:
        comments_in(db).delete(node["_id"], slug)
    assert texts(comments, node) == ["", "answer"]


def test_a_discussion_begins_once(site: Db, node: Node, mongod: Embedded) -> None:
    paged = comments_in(site, strategy="paged")
    with meanwhile(mongod, site, lambda: paged.post(node["_id"], ADA, "first")) as db:
        comments_in(db, strategy="separate").post(node["_id"], BEN, "second")
    assert texts(paged, node) == ["first", "second"]


def test_a_freeze_waits_for_a_run_that_was_permitted_before(site: Db, node: Node, mongod: Embedded) -> None:
    comments = comments_in(site)
    comments.post(node, ADA, "before")

    with stalled_client(mongod, site, COMMIT) as (slow, stall), ThreadPoolExecutor(2) as pool:
        posting = pool.submit(comments_in(slow).post, node["_id"], BEN, "under way")
        assert stall.asleep.wait(120)
        converting = pool.submit(comments.convert, node["_id"], "paged")
        assert not wait([converting], timeout=0.5).done
        stall.awake.set()
        posting.result()
        converting.result()
    assert texts(comments, node) == ["before", "under way"]
