"""Comments: one suite for the three strategies."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, get_args

import pytest
from pymongo.errors import WriteError
from tests.systems.content.conftest import ADA, BEN

from squinney.content import (
    CAPABILITIES,
    Comments,
    DiscussionFull,
    Node,
    Nodes,
    StrategyCannot,
    UnknownComment,
    UnknownNode,
)
from squinney.content.comments.discussions import Order
from squinney.content.comments.documents import MAX_COMMENT_DEPTH, MAX_COMMENT_LENGTH
from squinney.content.comments.embedded import NO_ROOM_IN_CACHE
from squinney.content.documents import Strategy
from squinney.errors import Conflict, Forbidden, Invalid, LimitReached
from squinney.mongo.schema import Db
from squinney.transactions import CHECKS_FIELD, Busy, Key, KeyReused, Transactions

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    return request.param


@pytest.fixture
def ticks() -> Callable[[], datetime]:
    """A clock for comments that are microseconds apart, within one second."""
    number = count()
    return lambda: datetime(2026, 11, 15, 12, 21, 8, tzinfo=UTC) + timedelta(microseconds=7 * next(number))


@pytest.fixture
def comments(site: Db, strategy: Strategy, ticks: Callable[[], datetime]) -> Comments:
    return Comments(site, strategy, transactions=Transactions(site, timeout_seconds=20), clock=ticks, only_nodes=True)


@pytest.fixture
def node(site: Db) -> Node:
    return Nodes(site).create(None, "page", "basic-page", "Page", ADA)


def walk(comments: Comments, node: Node | str, limit: int, order: Any = "chronological") -> list[Any]:
    """Return all comments, read page by page."""
    found, cursor = [], None
    while True:
        page = comments.page(node, cursor, limit, order)
        assert len(page.items) <= limit
        found += page.items
        if (cursor := page.next) is None:
            return found


def can(comments: Comments, what: str) -> bool:
    return what in CAPABILITIES[comments._strategy]


def test_comments_come_back_in_order_even_within_one_second(comments: Comments, node: Node) -> None:
    posted = [comments.post(node, ADA, f"no {number}") for number in range(23)]
    assert walk(comments, node, 5) == posted
    assert walk(comments, node["_id"], 200) == posted
    assert len({comment["posted"].replace(microsecond=0) for comment in posted}) == 1
    assert comments.count(node) == 23
    assert all(comments.get(node, comment["slug"]) == comment for comment in posted)


def test_a_node_without_comments_has_an_empty_list(comments: Comments, node: Node) -> None:
    assert comments.page(node).items == []
    assert comments.count(node) == 0
    with pytest.raises(UnknownComment):
        comments.get(node, "abcd")
    for attempt in (
        lambda: comments.page("none"),
        lambda: comments.post("none", ADA, "x"),
        lambda: comments.count("none"),
    ):
        with pytest.raises(UnknownNode):
            attempt()


def test_threads_are_ordered_by_time_at_each_level(comments: Comments, node: Node) -> None:
    if not can(comments, "threaded"):
        comments.post(node, ADA, "x")
        with pytest.raises(StrategyCannot, match="paged"):
            comments.page(node, order="threaded")
        return
    a, b = comments.post(node, ADA, "a"), comments.post(node, BEN, "b")
    ab = comments.post(node, ADA, "a.b", b["slug"])
    aa = comments.post(node, BEN, "a.a", a["slug"])
    c = comments.post(node, ADA, "c")
    aaa = comments.post(node, ADA, "a.a.a", aa["slug"])
    ad = comments.post(node, ADA, "a.d", a["slug"])
    expected = [a, aa, aaa, ad, b, ab, c]
    for limit in (1, 2, 3, 50):
        assert [item["_id"] for item in walk(comments, node, limit, "threaded")] == [item["_id"] for item in expected]
    assert [item["text"] for item in comments.discussion(node, a["slug"])] == ["a", "a.a", "a.a.a", "a.d"]
    assert [item["text"] for item in comments.discussion(node, aaa["slug"])] == ["a.a.a"]
    assert comments.get(node, a["slug"])["num_replies"] == 2
    assert [item["text"] for item in walk(comments, node, 3)] == ["a", "b", "a.b", "a.a", "c", "a.a.a", "a.d"]


def test_a_thread_never_takes_in_a_sibling_whose_slug_begins_the_same(
    comments: Comments, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can(comments, "discussion"):
        posted = comments.post(node, ADA, "x")
        with pytest.raises(StrategyCannot):
            comments.discussion(node, posted["slug"])
        return
    slugs = iter(["34db", "34dbe", "8bda", "8bdb", "34d", "ffff"])
    same_time = datetime(2026, 11, 15, tzinfo=UTC)
    from squinney.content.comments import discussions

    monkeypatch.setattr(comments, "_clock", lambda: same_time)
    original = discussions.new_comment

    def named(*args: Any) -> Any:
        made = original(*args)
        own = next(slugs)
        made["_id"] = made["_id"].split(":")[0] + ":" + own
        made["slug"] = made["slug"].rpartition("/")[0] + "/" + own if "/" in made["slug"] else own
        made["full_slug"] = args[3]["full_slug"] + "/" + made["_id"] if args[3] else made["_id"]
        return made

    monkeypatch.setattr(discussions, "new_comment", named)
    short, long = comments.post(node, ADA, "short"), comments.post(node, ADA, "long")
    comments.post(node, ADA, "below short", short["slug"])
    comments.post(node, ADA, "below long", long["slug"])
    comments.post(node, ADA, "shorter")
    texts = [item["text"] for item in comments.discussion(node, "34db")]
    assert texts == ["short", "below short"]
    assert [item["text"] for item in comments.discussion(node, "34dbe")] == ["long", "below long"]
    assert [item["text"] for item in comments.discussion(node, "34d")] == ["shorter"]


def test_a_comment_is_shown_with_what_it_answers(site: Db, node: Node) -> None:
    comments = Comments(site)
    first = comments.post(node, ADA, "first")
    root = comments.post(node, ADA, "root")
    answer = comments.post(node, ADA, "answer", root["slug"])
    deep = comments.post(node, BEN, "deep", answer["slug"])

    def shown(limit: int, order: Order = "threaded") -> list[str]:
        return [comment["text"] for comment in comments.page_showing(node, deep["slug"], limit, order).items]

    assert shown(50) == ["first", "root", "answer", "deep"]
    assert shown(3) == ["root", "answer", "deep"]
    assert shown(2) == ["answer", "deep"]
    assert shown(1) == shown(3, "chronological") == ["deep"]
    comments.delete(node, first["slug"])
    with pytest.raises(UnknownComment):
        comments.page_showing(node, first["slug"])


def test_a_permalink_opens_the_page_that_shows_it(comments: Comments, node: Node) -> None:
    posted = [comments.post(node, ADA, f"no {number}") for number in range(12)]
    for comment in posted:
        shown = comments.page(node, limit=200, at=comment["slug"])
        assert shown.items[0] == comment
        if can(comments, "threaded"):
            assert comments.page(node, limit=2, order="threaded", at=comment["slug"]).items[0] == comment
    with pytest.raises(UnknownComment):
        comments.page(node, at="nowhere")


def test_an_edit_shows_and_a_strangers_is_refused(comments: Comments, node: Node) -> None:
    first, second = comments.post(node, ADA, "first"), comments.post(node, BEN, "second")
    edited = comments.edit(node, first["slug"], "better", by="ada")
    assert comments.get(node, first["slug"]) == edited
    assert (edited["text"], edited["version"]) == ("better", 2)
    assert "edited" in edited
    assert comments.get(node, second["slug"]) == second
    for attempt in (
        lambda: comments.edit(node, first["slug"], "mine", by="ben"),
        lambda: comments.delete(node, first["slug"], by="ben"),
    ):
        with pytest.raises(Forbidden):
            attempt()
    with pytest.raises(UnknownComment):
        comments.edit(node, "nowhere", "x")


def test_comments_of_a_node_that_was_moved_are_found_by_its_older_document(
    site: Db, comments: Comments, node: Node
) -> None:
    slugs = [comments.post(node, ADA, text)["slug"] for text in ("kept", "gone")]
    before = Nodes(site).by_id(node["_id"])
    Nodes(site).move(node, None, "elsewhere")
    assert comments.get(before, slugs[0])["text"] == "kept"
    assert comments.edit(before, slugs[0], "changed")["text"] == "changed"
    comments.delete(before, slugs[1])
    assert [comment["text"] for comment in comments.page(before).items] == ["changed"]
    with pytest.raises(UnknownComment):
        comments.get(before, slugs[1])


def test_a_deleted_comment_goes_or_keeps_its_place(comments: Comments, node: Node) -> None:
    keep, gone = comments.post(node, ADA, "keep"), comments.post(node, ADA, "gone")
    comments.delete(node, gone["slug"], by="ada")
    assert comments.page(node).items == [keep]
    assert comments.count(node) == 1
    with pytest.raises(UnknownComment):
        comments.get(node, gone["slug"])
    if not can(comments, "replies"):
        with pytest.raises(StrategyCannot):
            comments.post(node, ADA, "x", keep["slug"])
        return
    reply = comments.post(node, BEN, "reply", keep["slug"])
    comments.delete(node, keep["slug"])
    tomb = comments.get(node, keep["slug"])
    assert (tomb["text"], tomb["author"]["_id"], tomb["num_replies"]) == ("", "", 1)
    assert "deleted" in tomb
    assert [item["_id"] for item in comments.discussion(node, keep["slug"])] == [keep["_id"], reply["_id"]]
    assert comments.count(node) == 1
    with pytest.raises(Conflict, match="deleted"):
        comments.post(node, ADA, "to the dead", keep["slug"])
    with pytest.raises(UnknownComment):
        comments.delete(node, keep["slug"])
    comments.delete(node, reply["slug"])
    assert comments.get(node, keep["slug"])["num_replies"] == 0
    assert comments.count(node) == 0


def test_by_author_is_a_list_or_a_named_refusal(comments: Comments, node: Node, site: Db) -> None:
    posted = [comments.post(node, ADA, f"a{number}") for number in range(4)]
    comments.post(node, BEN, "b")
    if not can(comments, "by_author"):
        with pytest.raises(StrategyCannot, match="by author"):
            comments.by_author("ada")
        return
    first = comments.by_author("ada", limit=3)
    rest = comments.by_author("ada", first.next)
    assert [*first.items, *rest.items] == posted[::-1]


def test_a_key_posts_once(comments: Comments, node: Node) -> None:
    first = comments.post(node, ADA, "once", key=Key("k", "ada"))
    assert comments.post(node, ADA, "once", key=Key("k", "ada")) == first
    comments.post(node, BEN, "once", key=Key("k", "ben"))
    assert comments.count(node) == 2
    with pytest.raises(KeyReused):
        comments.post(node, ADA, "other", key=Key("k", "ada"))
    if comments.strategy_of(node) != "paged":
        with pytest.raises(KeyReused):
            comments.post(node, ADA, "once", first["slug"], key=Key("k", "ada"))


BAD: list[tuple[str, Callable[[Comments, Node], object]]] = [
    ("text", lambda c, n: c.post(n, ADA, "")),
    ("text", lambda c, n: c.post(n, ADA, " \n")),
    ("text", lambda c, n: c.post(n, ADA, "x" * (MAX_COMMENT_LENGTH + 1))),
    ("text", lambda c, n: c.post(n, ADA, {"$gt": ""})),  # type: ignore[arg-type]
    ("author", lambda c, n: c.post(n, {"_id": "a"}, "x")),  # type: ignore[typeddict-item]
    ("slug", lambda c, n: c.get(n, "../x")),
    ("slug", lambda c, n: c.get(n, {"$gt": ""})),  # type: ignore[arg-type]
    ("order", lambda c, n: c.page(n, order="random")),  # type: ignore[arg-type]
    ("limit", lambda c, n: c.page(n, limit=201)),
    ("cursor", lambda c, n: (c.post(n, ADA, "x"), c.page(n, "nonsense"))),
    ("to", lambda c, n: c.convert(n, "drawer")),  # type: ignore[arg-type]
    ("node", lambda c, n: c.page({"$gt": ""})),  # type: ignore[typeddict-item, typeddict-unknown-key]
]


@pytest.mark.parametrize(("field", "attempt"), BAD, ids=[f"{field}-{n}" for n, (field, _) in enumerate(BAD)])
def test_bad_input_is_named(site: Db, node: Node, strategy: Strategy, field: str, attempt: Any) -> None:
    with pytest.raises(Invalid) as caught:
        attempt(Comments(site, strategy), node)
    assert caught.value.details["field"] == field


def test_a_thread_has_a_greatest_depth(comments: Comments, node: Node) -> None:
    if not can(comments, "replies"):
        pytest.skip("paged discussions have no replies")
    slug = None
    for _ in range(MAX_COMMENT_DEPTH):
        slug = comments.post(node, ADA, "deeper", slug)["slug"]
    with pytest.raises(LimitReached):
        comments.post(node, ADA, "too deep", slug)


def _patiently(work: Callable[[], object]) -> None:
    """Retry: the server's small cache may be full of other tests' data, and then it refuses 13 MB for a while."""
    for _ in range(100):
        try:
            work()
            return
        except (WriteError, Busy) as error:
            if isinstance(error, WriteError) and error.code != NO_ROOM_IN_CACHE:
                raise
            time.sleep(0.1)
    raise AssertionError("the server's cache stayed full")


def test_embedded_stops_before_16_mb_and_says_to_convert(site: Db, node: Node) -> None:
    comments = Comments(site, "embedded")
    whole = "x" * MAX_COMMENT_LENGTH
    first, short = comments.post(node, ADA, whole), comments.post(node, ADA, "short")
    crowd = [{**first, "_id": f"{first['_id']}{n}", "slug": f"a{n}", "full_slug": f"a{n}"} for n in range(1_300)]
    more = {"$push": {"metadata.comments": {"$each": crowd}}, "$inc": {"metadata.num_comments": 1_300}}
    _patiently(lambda: site["content.nodes"].update_one({"_id": node["_id"]}, more))

    def post_on() -> None:
        for _ in range(200):
            _patiently(lambda: comments.post(node, ADA, whole))

    with pytest.raises(DiscussionFull, match="convert"):
        post_on()
    posted = comments.count(node)
    assert 1_302 < posted < 1_500
    with pytest.raises(DiscussionFull):  # with a longer text it would not fit either
        comments.edit(node, short["slug"], "\U0001f600" * MAX_COMMENT_LENGTH)
    _patiently(lambda: comments.edit(node, short["slug"], "brief"))
    nodes = Nodes(site)
    nodes.edit(node, node["metadata"]["nonce"], {"detail": {"text": "y" * 500_000}})
    comments.convert(node, "paged")
    comments.post(node, ADA, whole)
    assert comments.count(node) == posted + 1
    with pytest.raises(DiscussionFull):
        comments.convert(node, "embedded")
    assert comments.strategy_of(node) == "paged"
    comments.post(node, ADA, "still open")


def test_a_page_of_comments_fills_up_and_the_next_begins(site: Db, node: Node, a_page: int) -> None:
    comments = Comments(site, "paged", transactions=Transactions(site))
    posted = [comments.post(node, ADA, f"no {number}") for number in range(2 * a_page + 5)]
    pages = list(site["content.comment_pages"].find().sort("page"))
    assert [(page["page"], page["count"], len(page["comments"])) for page in pages] == [
        (1, a_page, a_page),
        (2, a_page, a_page),
        (3, 5, 5),
    ]
    for comment in posted[:a_page]:
        comments.delete(node, comment["slug"])
    assert walk(comments, node, 3) == posted[a_page:]
    assert comments.page(node, at=posted[15]["slug"], limit=8).items == posted[15:23]


def test_neither_a_node_nor_a_comment_shows_that_it_was_checked(
    site: Db, node: Node, comments: Comments, strategy: Strategy
) -> None:
    slug = comments.post(node["_id"], ADA, "question")["slug"]
    edited = comments.edit(node["_id"], slug, "a better question")
    stored = site["content.nodes"].find_one({"_id": node["_id"]}) or {}
    assert (CHECKS_FIELD in stored) == (strategy != "embedded")
    nodes = Nodes(site)
    metadata = node["metadata"]
    shown = [
        nodes.by_id(node["_id"]),
        nodes.get(metadata["parent_id"], metadata["slug"]),
        nodes.edit(node["_id"], metadata["nonce"], {"title": "New"}),
        *nodes.children(metadata["parent_id"]).items,
        *nodes.unpublished(metadata["parent_id"]).items,
        nodes.publish(node["_id"]),
        *nodes.recent(metadata["parent_id"]).items,
        nodes.add_tags(node["_id"], ["jazz"]),
        *nodes.tagged("jazz").items,
        *comments.page(node["_id"]).items,
        comments.get(node["_id"], slug),
        edited,
    ]
    assert [document for document in shown if CHECKS_FIELD in document] == []
