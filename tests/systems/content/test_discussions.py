"""Concurrent posts, conversions, moderation and erasure, in the three strategies."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import MongoClient
from tests.racing import at_once
from tests.sizes import IN_FULL, a_tenth_of, heavy
from tests.systems.content.conftest import ADA, BEN
from tests.systems.content.test_comments import STRATEGIES, walk

from squinney.content import (
    Author,
    Comment,
    Comments,
    Moderation,
    Node,
    Nodes,
    People,
    UnknownComment,
    UnknownNode,
    Viewer,
    find_problems,
)
from squinney.content.comments import conversion
from squinney.content.comments.discussions import new_comment
from squinney.content.comments.documents import COMMENTS_A_PAGE
from squinney.content.comments.moderation import Flagged
from squinney.content.comments.paged import Paged
from squinney.content.documents import Strategy
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document
from squinney.testing.server_commands import watched
from squinney.transactions import Busy, Key, KeyReused, Transactions

WRITERS, TURNS = (50, 3) if IN_FULL else (10, 11)  # more than a page's worth


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    return request.param


@pytest.fixture
def node(site: Db) -> Node:
    return Nodes(site).create(None, "page", "basic-page", "Page", ADA)


@heavy
def test_many_writers_lose_duplicate_or_misplace_no_comment(site: Db, node: Node, strategy: Strategy) -> None:
    comments = Comments(site, strategy, transactions=Transactions(site, timeout_seconds=60))
    barrier = threading.Barrier(WRITERS)

    def writer(number: int) -> list[str]:
        barrier.wait()
        return [posted(f"{number}-{turn}") for turn in range(TURNS)]

    def posted(text: str) -> str:
        """Retry a post: many writers of one node wait for each other, and one that waits too long raises `Busy`."""
        while True:
            with suppress(Busy):
                return comments.post(node["_id"], ADA, text)["slug"]

    with ThreadPoolExecutor(WRITERS) as pool:
        slugs = [slug for own in pool.map(writer, range(WRITERS)) for slug in own]
    found = walk(comments, node["_id"], 37)
    assert Counter(comment["slug"] for comment in found) == Counter(slugs)
    assert Counter(comment["text"] for comment in found) == Counter(
        f"{n}-{t}" for n in range(WRITERS) for t in range(TURNS)
    )
    assert comments.count(node) == WRITERS * TURNS
    if strategy == "paged":
        pages = list(site["content.comment_pages"].find().sort("page"))
        assert [page["page"] for page in pages] == list(range(1, len(pages) + 1))
        assert all(page["count"] == len(page["comments"]) <= COMMENTS_A_PAGE + WRITERS for page in pages)
        assert all(page["count"] >= COMMENTS_A_PAGE for page in pages[:-1])
    else:
        assert [comment["_id"] for comment in found] == sorted(comment["_id"] for comment in found)


def test_a_page_that_becomes_full_takes_concurrent_posts_up_to_twice_its_size(
    site: Db, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    comments = Comments(site, "paged")
    comments.post(node, ADA, "first")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    crowd = [new_comment(node["_id"], ADA, "x", None, start + timedelta(seconds=n)) for n in range(COMMENTS_A_PAGE)]
    _store(site, node, "paged", crowd)
    looked = Paged._is_full
    answers = [False] * COMMENTS_A_PAGE

    def looked_before(self: Paged, *place: Any) -> bool:
        return answers.pop() if answers else looked(self, *place)

    monkeypatch.setattr(Paged, "_is_full", looked_before)
    late = [comments.post(node["_id"], ADA, "late") for _ in range(COMMENTS_A_PAGE)]
    answers.append(False)
    last = comments.post(node["_id"], ADA, "too late")
    assert [page["count"] for page in site["content.comment_pages"].find().sort("page")] == [2 * COMMENTS_A_PAGE, 1]
    assert [comment["_id"] for comment in walk(comments, node["_id"], 50)][COMMENTS_A_PAGE:] == [
        comment["_id"] for comment in [*late, last]
    ]


@pytest.mark.parametrize("to", STRATEGIES)
@pytest.mark.usefixtures("a_page")
def test_a_conversion_keeps_everything(site: Db, node: Node, strategy: Strategy, to: Strategy) -> None:
    comments = Comments(site, strategy, transactions=Transactions(site))
    first = comments.post(node, ADA, "first")
    if strategy != "paged":
        reply = comments.post(node, BEN, "reply", first["slug"])
        comments.post(node, ADA, "reply to it", reply["slug"])
        comments.delete(node, reply["slug"])
    for number in range(12):
        comments.post(node, BEN, f"no {number}")
    comments.edit(node, first["slug"], "edited")
    before, counted = walk(comments, node["_id"], 5), comments.count(node)
    assert comments.convert(node, to) == to
    assert comments.strategy_of(node) == to
    assert walk(comments, node["_id"], 5) == before
    assert walk(comments, node, 5) == before
    assert comments.count(node) == counted
    comments.edit(node, first["slug"], "edited again")
    posted = comments.post(node["_id"], ADA, "after")
    for back in (strategy, to, "paged", "separate"):
        comments.convert(node, back)
    assert walk(comments, node["_id"], 200)[-1] == posted
    assert comments.get(node["_id"], first["slug"])["text"] == "edited again"
    assert comments.count(node) == counted + 1


def test_a_conversion_under_load_loses_nothing(site: Db, node: Node) -> None:
    comments = Comments(site, "embedded", transactions=Transactions(site, timeout_seconds=60))
    stop = threading.Event()
    posted = threading.Semaphore(0)

    def writer(number: int) -> dict[str, str]:
        done: dict[str, str] = {}
        while not stop.is_set():
            comment = comments.post(node["_id"], ADA, f"{number}-{len(done)}")
            done[comment["slug"]] = comment["text"]
            posted.release()
            if len(done) % 7 == 0:
                comments.edit(node["_id"], comment["slug"], "edited")
                done[comment["slug"]] = "edited"
            if len(done) % 11 == 0:
                comments.delete(node["_id"], comment["slug"])
                done[comment["slug"]] = "deleted"
        return done

    with ThreadPoolExecutor(6) as pool:
        writers = [pool.submit(writer, number) for number in range(6)]
        try:
            for to in ("separate", "paged", "embedded", "paged", "separate", "embedded"):
                assert all(posted.acquire(timeout=120) for _ in range(6))
                comments.convert(node["_id"], to)
        finally:
            stop.set()
        acknowledged = {slug: text for future in writers for slug, text in future.result().items()}
    expected = {slug: text for slug, text in acknowledged.items() if text != "deleted"}
    assert {comment["slug"]: comment["text"] for comment in walk(comments, node["_id"], 200)} == expected
    assert comments.count(node) == len(expected)
    assert len(expected) > 20


def test_a_conversion_that_died_frozen_is_thawed(site: Db, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    comments = Comments(site, "separate")
    comments.post(node, ADA, "before")
    monkeypatch.setattr(conversion, "FREEZE_SECONDS", -1)
    discussed = comments._discussed(node["_id"])
    token = conversion._freeze(site, discussed, 1)
    comments.post(node["_id"], ADA, "after")
    with pytest.raises(Busy):
        conversion._switch(site, Transactions(site), discussed, "paged", 2, token, {}, None)
    assert [comment["text"] for comment in comments.page(node).items] == ["before", "after"]


def test_a_node_whose_conversion_died_frozen_is_removed(site: Db, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    comments = Comments(site)
    comments.post(node, ADA, "gone with it")
    monkeypatch.setattr(conversion, "FREEZE_SECONDS", -1)
    conversion._freeze(site, comments._discussed(node["_id"]), 1)
    Nodes(site).remove(node)
    assert site["content.nodes"].count_documents({}) == 0


@heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["separate", "paged"])
def test_any_page_and_permalink_of_100_000_in_a_constant_number_of_queries(
    site: Db, node: Node, client: MongoClient[Document], mongod: Any, kind: Strategy
) -> None:
    comments = Comments(site, kind)
    comments.post(node, ADA, "first")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    count = a_tenth_of(100_000)
    crowd = [new_comment(node["_id"], ADA, f"no {n}", None, start + timedelta(milliseconds=n)) for n in range(count)]
    _store(site, node, kind, crowd)
    fresh = Nodes(site).by_id(node["_id"])
    far = count - 1_000
    with watched(mongod.uri, site.name) as (db, commands):
        comments = Comments(db, kind)
        cursors = {index: _cursor_at(comments, fresh, crowd[index]["slug"]) for index in (0, count // 2, far)}
        for index, cursor in cursors.items():
            for attempt, queries in (
                (lambda cursor=cursor: comments.page(fresh, cursor, 50), 1),
                (lambda index=index: comments.get(fresh, crowd[index]["slug"]), 1),
                (lambda index=index: comments.page(fresh, limit=50, at=crowd[index]["slug"]), 2 + (kind == "paged")),
            ):
                commands.sent.clear()
                result = attempt()
                assert commands.names == ["find"] * queries
        assert crowd[far]["slug"] in [comment["slug"] for comment in result.items]


def _cursor_at(comments: Comments, node: Node, slug: str) -> str | None:
    return comments.page(node, limit=1, at=slug).next


def _store(site: Db, node: Node, kind: Strategy, crowd: list[Any]) -> None:
    discussed = Comments(site)._discussed(node["_id"])
    fields = conversion.COPY_TO[kind](site, node["_id"], discussed.discussion["epoch"], crowd)
    fields["metadata.num_comments"] = len(crowd)
    site["content.nodes"].update_one({"_id": node["_id"]}, {"$set": fields})


def test_a_client_with_naive_times_works(site: Db, mongod: Any, strategy: Strategy) -> None:
    with MongoClient[Document](mongod.uri) as client:
        db = client[site.name]
        nodes, comments = Nodes(db), Comments(db, strategy)
        node = nodes.create(None, "page", "basic-page", "Page", ADA, published=datetime(2026, 1, 1, tzinfo=UTC))
        said = [comments.post(node["_id"], BEN, text) for text in "abc"]
        assert nodes.by_id(node["_id"], viewer=Viewer("zoe")) == nodes.recent(None, viewer=Viewer()).items[0]
        assert walk(comments, node["_id"], 2) == said
        assert [one.comment for one in _flagged(db, comments, said[0])] == [said[0]]
        until = datetime(2026, 1, 1, tzinfo=UTC)
        frozen = {"metadata.discussion.frozen": {"token": "one that died", "until": until}}
        db["content.nodes"].update_one({"_id": node["_id"]}, {"$set": frozen})
        comments.convert(node["_id"], "paged" if strategy == "separate" else "separate")
        assert sorted(comment["text"] for comment in People(db, comments).export("ben")) == ["a", "b", "c"]


def _flagged(db: Db, comments: Comments, comment: Comment) -> list[Flagged]:
    moderation = Moderation(db, comments)
    moderation.flag(comment["node_id"], comment["slug"], "zoe")
    return moderation.queue().items


def test_flags_that_meet_all_count(site: Db, node: Node) -> None:
    comments = Comments(site)
    moderation = Moderation(site, comments)
    for text in "abcdefghij":
        slug = comments.post(node, ADA, text)["slug"]
        at_once(8, lambda number, slug=slug: moderation.flag(node, slug, f"reader-{number}"))
        assert len(moderation.flag(node, slug, "reader-0")["by"]) == 8


def test_flags_make_a_queue_that_moderators_empty(site: Db, node: Node, strategy: Strategy) -> None:
    comments = Comments(site, strategy)
    ticks = iter(range(100))
    clock = lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(ticks))  # noqa: E731
    moderation = Moderation(site, comments, clock=clock)
    rude, fine, gone = (comments.post(node, ADA, text) for text in ("rude", "fine", "gone"))
    for comment in (rude, fine, gone):
        moderation.flag(node, comment["slug"], "ben", "spam")
    moderation.flag(node, rude["slug"], "ben", "again")
    assert moderation.flag(node, rude["slug"], "eve", "rude")["by"] == ["ben", "eve"]
    first = moderation.queue(limit=2)
    assert [entry.comment["text"] for entry in first.items] == ["rude", "fine"]
    comments.delete(node, gone["slug"])
    assert [entry.comment for entry in moderation.queue(cursor=first.next).items] == [None]
    assert moderation.decide(node, rude["slug"], "remove", by="mod")["state"] == "removed"
    assert moderation.decide(node, rude["slug"], "remove", by="mod")["state"] == "removed"
    assert moderation.decide(node, fine["slug"], "keep", by="mod")["state"] == "kept"
    moderation.decide(node, gone["slug"], "remove", by="mod")
    assert moderation.queue().items == []
    assert [comment["text"] for comment in comments.page(node).items] == ["fine"]
    assert moderation.flag(node, fine["slug"], "zoe")["state"] == "open"
    unflagged = comments.post(node, ADA, "unflagged")
    for attempt in (
        lambda: moderation.decide(node, unflagged["slug"], "remove", by="mod"),
        lambda: moderation.flag(node, "nowhere", "ben"),
        lambda: moderation.flag(node, rude["slug"], "ben"),
        lambda: moderation.decide(node, "nowhere", "keep", by="mod"),
    ):
        with pytest.raises(UnknownComment):
            attempt()
    assert comments.get(node, unflagged["slug"])["text"] == "unflagged"
    for wrong in (
        lambda: moderation.decide(node, fine["slug"], "burn", by="mod"),  # type: ignore[arg-type]
        lambda: moderation.decide(5, fine["slug"], "keep", by="mod"),  # type: ignore[arg-type]
    ):
        with pytest.raises(Invalid):
            wrong()


def test_moderators_see_and_judge_only_where_they_may_read(site: Db) -> None:
    nodes, comments = Nodes(site), Comments(site)
    moderation = Moderation(site, comments, nodes=nodes)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    hidden = nodes.create(None, "hidden", "folder", "Hidden", ADA, published=now)
    nodes.set_access(hidden, {"read": [], "edit": ["user:zoe"]})
    below = nodes.create(hidden, "page", "basic-page", "Page", ADA, published=now)
    open_page = nodes.create(None, "open", "basic-page", "Open", ADA, published=now)
    nodes.set_access(open_page, {"read": ["everyone"], "edit": ["user:zoe"]})
    secrets = [comments.post(below, BEN, f"secret {number}") for number in range(3)]
    said = comments.post(open_page, BEN, "said")
    for comment in (*secrets, said):
        moderation.flag(comment["node_id"], comment["slug"], "eve")
    editor, owner, stranger = Viewer("ed", frozenset({"editor"})), Viewer("zoe"), Viewer("ada-2")
    page = moderation.queue(limit=1, viewer=editor)
    assert ([item.comment["text"] for item in page.items], page.next) == (["said"], None)
    assert len(moderation.queue(viewer=owner).items) == len(moderation.queue().items) == 4
    assert moderation.queue(viewer=stranger).items == []
    for viewer in (editor, stranger):
        with pytest.raises(UnknownNode):
            moderation.decide(below, secrets[0]["slug"], "remove", by="ed", viewer=viewer)
    with pytest.raises(UnknownNode):
        moderation.decide(open_page, said["slug"], "remove", by="ada-2", viewer=stranger)
    assert comments.count(below) == 3
    moderation.decide(open_page, said["slug"], "remove", by="ed", viewer=editor)
    moderation.decide(below, secrets[0]["slug"], "remove", by="zoe", viewer=owner)
    assert (comments.count(open_page), comments.count(below)) == (0, 2)


def test_a_node_read_before_a_conversion_leads_to_its_comments(site: Db, node: Node, strategy: Strategy) -> None:
    comments = Comments(site, strategy)
    comment = comments.post(node, ADA, "here")
    before = Nodes(site).by_id(node["_id"])
    comments.convert(node["_id"], "paged" if strategy == "separate" else "separate")
    assert comments.get(before, comment["slug"]) == comment
    assert comments.page(before).items == [comment]


def test_a_persons_list_shows_nothing_that_a_conversion_left(site: Db, node: Node) -> None:
    comments = Comments(site)
    left, other = comments.post(node, ADA, "left"), Nodes(site).create(None, "other", "basic-page", "Other", ADA)
    comments.post(other, ADA, "stays")
    comments.convert(node, "embedded")
    comments.delete(node["_id"], left["slug"])
    assert [comment["text"] for comment in comments.by_author("ada").items] == ["stays"]


def test_no_text_of_a_person_remains(site: Db, node: Node, strategy: Strategy) -> None:
    comments = Comments(site, strategy, transactions=Transactions(site))
    posted = comments.post(node, ADA, "a secret", key=Key("k", "ada"))
    assert comments.post(node, ADA, "a secret", key=Key("k", "ada")) == posted
    comments.edit(node["_id"], comments.post(node, ADA, "a secret")["slug"], "a secret, edited")
    People(site, comments).erase("ada")
    assert [name for name in site.list_collection_names() if "a secret" in repr(list(site[name].find()))] == []


def test_no_name_of_a_person_stays_anywhere(site: Db) -> None:
    runs = Transactions(site)
    nodes, comments = Nodes(site, transactions=runs), Comments(site, transactions=runs)
    zed: Author = {"_id": "zed-1", "name": "Zed Zebedee"}
    page = nodes.create(None, "p", "basic-page", "P", zed)
    theirs = nodes.create(None, "q", "basic-page", "Q", BEN)
    page = nodes.edit(page, page["metadata"]["nonce"], {"title": "P2"}, by=BEN)
    theirs = nodes.edit(theirs, theirs["metadata"]["nonce"], {"title": "Q2"}, by=zed)
    moderation, slug = Moderation(site, comments), comments.post(theirs, BEN, "rude")["slug"]
    moderation.flag(theirs, slug, "eve")
    moderation.decide(theirs, slug, "keep", by="zed-1")
    assert People(site, comments).erase("zed-1") == {"names": 6}
    assert nodes.by_id(page["_id"])["metadata"]["author"] == {"_id": "", "name": "deleted"}
    assert [version["author"]["name"] for version in nodes.history(theirs).items] == ["deleted", "Ben"]
    assert nodes.restore(page, nodes.history(page).items[-1]["nonce"])["metadata"]["title"] == "P"
    left = [
        name
        for name in site.list_collection_names()
        if "zed-1" in (all_of := repr(list(site[name].find()))) or "Zed" in all_of
    ]
    assert left == []
    assert People(site, comments).erase("zed-1") == Counter()


def test_a_persons_flags_go_with_their_words(site: Db, node: Node) -> None:
    comments = Comments(site)
    moderation, slug = Moderation(site, comments), comments.post(node, ADA, "rude")["slug"]
    for who, why in (("eve", "eve's words"), ("ben", "ben's words"), ("zoe", "zoe's words")):
        moderation.flag(node, slug, who, why)
    assert People(site, comments).erase("ben") == {"flags": 1}
    flag = moderation.queue().items[0].flag
    assert (flag["by"], flag["reasons"]) == (["eve", "zoe"], ["eve's words", "zoe's words"])


def test_a_persons_comments_are_exported_and_erased_everywhere(site: Db) -> None:
    nodes = Nodes(site)
    shelves: dict[Strategy, Comments] = {strategy: Comments(site, strategy) for strategy in STRATEGIES}
    expected = set()
    for strategy, comments in shelves.items():
        node = nodes.create(None, strategy, "basic-page", "P", ADA)
        first = comments.post(node, ADA, f"{strategy} 1")
        comments.post(node, BEN, "ben's")
        if strategy != "paged":
            comments.post(node, BEN, "ben's reply", first["slug"])
        comments.post(node, ADA, f"{strategy} 2")
        expected |= {f"{strategy} 1", f"{strategy} 2"}
    moved = nodes.create(None, "moved", "basic-page", "P", ADA)
    shelves["separate"].post(moved, ADA, "moved")
    shelves["separate"].convert(moved, "embedded")
    people = People(site, shelves["separate"])
    assert {comment["text"] for comment in people.export("ada")} == expected | {"moved"}
    assert len(list(people.export("ada"))) == 7
    done = people.erase("ada")
    assert (done["comments"], done["leftovers"]) == (7, 1)
    assert list(people.export("ada")) == []
    assert len(list(people.export("ben"))) == 5
    for strategy, comments in shelves.items():
        left = comments.page(nodes.by_path(f"/{strategy}")["_id"]).items
        assert all(comment["author"]["_id"] != "ada" for comment in left)
        assert any(comment.get("deleted") for comment in left) == (strategy != "paged")
    everything = [
        *site["content.comments"].find(),
        *site["content.comment_pages"].find(),
        *site["content.nodes"].find(),
    ]
    assert not any("separate 1" in repr(document) or "paged 1" in repr(document) for document in everything)
    assert people.erase("ada") == Counter()


def test_an_export_reads_only_as_much_as_is_asked_for(site: Db, node: Node, mongod: Any) -> None:
    Comments(site).post(node, BEN, "ben's")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    said = [new_comment(node["_id"], ADA, "x", None, start + timedelta(seconds=n)) for n in range(95)]
    site["content.comments"].insert_many([{**comment, "epoch": 1} for comment in said])
    with watched(mongod.uri, site.name) as (db, commands):
        exported = People(db, Comments(db)).export("ada")
        first = [next(exported) for _ in range(5)]
        assert commands.names == ["find", "find"], "some comments, and whether their discussions live"
        rest = list(exported)
    assert [comment["_id"] for comment in [*first, *rest]] == [comment["_id"] for comment in reversed(said)]
    assert len(commands.names) < 20


def test_erasing_what_a_conversion_left_touches_nothing_that_lives(site: Db, node: Node) -> None:
    comments = Comments(site)
    first = comments.post(node, ADA, "a secret")
    comments.post(node, BEN, "an answer", first["slug"])
    comments.convert(node, "paged")
    comments.convert(node, "separate")
    assert People(site, comments).erase("ada") == {"comments": 1, "leftovers": 1, "names": 3}
    left = comments.discussion(node["_id"], first["slug"])
    assert [(comment["text"], "deleted" in comment) for comment in left] == [("", True), ("an answer", False)]
    assert not any("a secret" in repr(document) for document in site["content.comment_pages"].find())


def test_erasing_while_a_conversion_switches_touches_nobody_else(
    site: Db, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    comments = Comments(site)
    comments.post(node, ADA, "a secret")
    comments.post(node, BEN, "ben's")
    people, switch, looked_at = People(site, comments), conversion._switch, threading.Event()
    look = people._all

    def looked(author_id: str) -> Any:
        found = list(look(author_id))
        looked_at.set()
        return found

    def switched(*args: Any) -> None:  # everything is copied, and the discussion frozen
        eraser.start()
        looked_at.wait(120)
        switch(*args)

    monkeypatch.setattr(people, "_all", looked)
    monkeypatch.setattr(conversion, "_switch", switched)
    eraser = threading.Thread(target=people.erase, args=["ada"])
    comments.convert(node["_id"], "paged")
    eraser.join()
    assert [comment["text"] for comment in comments.page(node["_id"]).items] == ["ben's"]
    assert list(find_problems(site)) == []
    assert not any("a secret" in repr(document) for document in site["content.comments"].find())


def test_copies_of_a_conversion_that_goes_on_are_erased_for_good(
    site: Db, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    comments = Comments(site)
    comments.post(node, ADA, "a secret")
    comments.post(node, BEN, "ben's")
    freeze = conversion._freeze

    def erased_before(*args: Any) -> str:
        assert People(site, comments).erase("ada") == {"comments": 1, "leftovers": 1, "names": 3}
        return freeze(*args)

    monkeypatch.setattr(conversion, "_freeze", erased_before)
    with pytest.raises(Busy):
        comments.convert(node["_id"], "paged")
    assert [comment["text"] for comment in comments.page(node["_id"]).items] == ["ben's"]
    assert site["content.comment_pages"].count_documents({}) == 0


@pytest.mark.parametrize("to", STRATEGIES)
def test_a_key_holds_when_the_discussion_is_converted(site: Db, node: Node, strategy: Strategy, to: Strategy) -> None:
    comments = Comments(site, strategy)
    comments.post(node["_id"], BEN, "before", key=Key("k", "ben"))
    first = comments.post(node["_id"], ADA, "once", key=Key("k", "ada"))
    comments.convert(node, to)
    assert comments.post(node["_id"], ADA, "once", key=Key("k", "ada"))["slug"] == first["slug"]
    comments.convert(node, "separate")
    comments.post(node["_id"], ADA, "once", key=Key("k", "ada"))
    with pytest.raises(KeyReused):
        comments.post(node["_id"], ADA, "other words", key=Key("k", "ada"))
    assert [comment["text"] for comment in walk(comments, node["_id"], 10)] == ["before", "once"]


def test_a_slug_that_belongs_to_another_is_not_taken_for_a_repeat(site: Db, node: Node) -> None:
    """As if two keys gave the same slug."""
    comments = Comments(site)
    comments.post(node["_id"], BEN, "his", key=Key("k", "s"))
    site["squinney.keys"].delete_many({})
    comments.post(node["_id"], ADA, "hers", key=Key("k", "s"))
    assert [comment["text"] for comment in walk(comments, node["_id"], 10)] == ["his", "hers"]


@pytest.mark.parametrize(("source", "to"), [("paged", "separate"), ("separate", "paged"), ("embedded", "separate")])
def test_of_two_concurrent_conversions_the_later_claim_wins(
    site: Db, node: Node, source: Strategy, to: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    comments = Comments(site, source)
    comments.post(node, ADA, "kept")
    earlier = conversion._claim(site, comments._discussed(node["_id"]))
    claim, note = conversion._claim, conversion._schedule_removal

    def the_earlier_goes_on(*args: Any) -> str | None:
        monkeypatch.setattr(conversion, "_schedule_removal", note)
        monkeypatch.setattr(conversion, "_claim", lambda *_: earlier)
        with pytest.raises(Busy):
            Comments(site).convert(node["_id"], to)
        monkeypatch.setattr(conversion, "_claim", claim)
        return note(*args)

    monkeypatch.setattr(conversion, "_schedule_removal", the_earlier_goes_on)
    assert comments.convert(node["_id"], to) == comments.strategy_of(node) == to
    assert [comment["text"] for comment in comments.page(node["_id"]).items] == ["kept"]
