"""Nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.systems.content.conftest import ADA, BEN, ManualClock

from squinney.content import ANYBODY, EditConflict, Nodes, NotEmpty, SlugTaken, UnknownNode, Viewer
from squinney.content.documents import MAX_TEXT_LENGTH
from squinney.content.nodes.documents import MAX_DEPTH, MAX_TAGS
from squinney.errors import Forbidden, Invalid, LimitReached
from squinney.mongo.schema import Db

EDITOR = Viewer("eve", frozenset({"editor"}))
BEYOND = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5)))


def test_a_node_is_found_by_its_path(nodes: Nodes) -> None:
    blog = nodes.create(None, "blog", "blog", "Our blog", ADA)
    entry = nodes.create(blog, "2026-11-hello", "blog-entry", "Hello", ADA, {"text": "*hi*"}, ["News", "news"])
    assert nodes.by_path("/blog/2026-11-hello") == entry
    assert nodes.get(blog, "2026-11-hello") == nodes.get(blog["_id"], "2026-11-hello") == entry
    assert nodes.by_id(entry["_id"]) == entry
    assert nodes.path_of(entry) == "/blog/2026-11-hello"
    assert entry["metadata"]["tags"] == ["news"]
    assert nodes.by_path("blog")["metadata"]["num_children"] == 1


@pytest.mark.parametrize("path", ["/", "/blog/nothing", "/nothing/at/all", "/a" * 30])
def test_a_path_to_nowhere_is_unknown(nodes: Nodes, path: str) -> None:
    nodes.create(None, "blog", "blog", "Our blog", ADA)
    with pytest.raises(UnknownNode):
        nodes.by_path(path)


def test_a_slug_is_taken_once(nodes: Nodes, site: Db) -> None:
    blog = nodes.create(None, "blog", "blog", "Our blog", ADA)
    nodes.create(blog, "one", "blog-entry", "One", ADA)
    with pytest.raises(SlugTaken):
        nodes.create(blog, "one", "blog-entry", "Other", BEN)
    with pytest.raises(SlugTaken):
        nodes.create(None, "blog", "folder", "Other", BEN)
    nodes.create(None, "one", "blog-entry", "Elsewhere", BEN)
    assert nodes.by_path("/blog")["metadata"]["num_children"] == 1
    assert site["content.revisions"].count_documents({}) == 3


BAD: list[tuple[str, Callable[[Nodes], object]]] = [
    ("slug", lambda n: n.create(None, "No Good", "folder", "T", ADA)),
    ("slug", lambda n: n.create(None, "", "folder", "T", ADA)),
    ("slug", lambda n: n.create(None, "a" * 151, "folder", "T", ADA)),
    ("slug", lambda n: n.create(None, {"$gt": ""}, "folder", "T", ADA)),  # type: ignore[arg-type]
    ("type", lambda n: n.create(None, "a", "novel", "T", ADA)),
    ("title", lambda n: n.create(None, "a", "folder", " ", ADA)),
    ("title", lambda n: n.create(None, "a", "folder", "t\nt", ADA)),
    ("author", lambda n: n.create(None, "a", "folder", "T", {"_id": "x"})),  # type: ignore[typeddict-item]
    ("tags", lambda n: n.create(None, "a", "folder", "T", ADA, tags=["a,b"])),
    ("tags", lambda n: n.create(None, "a", "folder", "T", ADA, tags=[f"t{i}" for i in range(MAX_TAGS + 1)])),
    ("detail.text", lambda n: n.create(None, "a", "basic-page", "T", ADA, {"text": "x" * (MAX_TEXT_LENGTH + 1)})),
    ("detail.text", lambda n: n.create(None, "a", "basic-page", "T", ADA, {"text": 5})),
    ("detail.text", lambda n: n.create(None, "a", "basic-page", "T", ADA, {"text": "\0"})),
    ("detail.$where", lambda n: n.create(None, "a", "basic-page", "T", ADA, {"$where": "1"})),
    ("detail.file_id", lambda n: n.create(None, "a", "photo", "T", ADA, {"file_id": "stolen"})),
    ("published", lambda n: n.create(None, "a", "folder", "T", ADA, published="now")),  # type: ignore[arg-type]
    ("cursor", lambda n: n.recent(None, cursor="bad")),
    ("limit", lambda n: n.tagged("a", limit=0)),
    ("path", lambda n: n.by_path("a" * 5_000)),
    ("published", lambda n: n.create(None, "a", "folder", "T", ADA, published=BEYOND)),
    ("at", lambda n: n.publish(n.create(None, "b", "folder", "T", ADA), BEYOND)),
    ("access", lambda n: n.set_access(n.create(None, "b", "folder", "T", ADA), {"read": []})),
    ("access.read", lambda n: n.set_access(n.create(None, "b", "folder", "T", ADA), {"read": ["all"], "edit": []})),
]


@pytest.mark.parametrize(("field", "attempt"), BAD, ids=[f"{field}-{n}" for n, (field, _) in enumerate(BAD)])
def test_bad_input_is_named(plain_nodes: Nodes, site: Db, field: str, attempt: Callable[[Nodes], object]) -> None:
    with pytest.raises(Invalid) as caught:
        attempt(plain_nodes)
    assert caught.value.details["field"] == field
    assert site["content.nodes"].count_documents({"metadata.slug": "a"}) == 0


def test_an_edit_needs_the_newest_nonce(nodes: Nodes) -> None:
    page = nodes.create(None, "page", "basic-page", "One", ADA, {"text": "a", "summary": "s"})
    base = page["metadata"]
    theirs = nodes.edit(page, base["nonce"], {"detail": {"text": "b"}}, by=BEN)
    assert theirs["metadata"]["detail"] == {"text": "b", "summary": "s"}
    with pytest.raises(EditConflict) as caught:
        nodes.edit(page, base["nonce"], {"title": "Mine"}, by=ADA)
    conflict = caught.value
    assert conflict.base["detail"]["text"] == "a"
    assert conflict.theirs["detail"]["text"] == "b"
    assert conflict.yours["title"] == "Mine"
    assert conflict.yours["detail"]["text"] == "a"
    assert nodes.by_path("/page") == theirs


def test_a_persons_queued_saves_do_not_conflict(nodes: Nodes) -> None:
    page = nodes.create(None, "page", "basic-page", "One", ADA)
    nonce = page["metadata"]["nonce"]
    for text in ("a", "ab", "abc"):
        nodes.edit(page, nonce, {"detail": {"text": text}}, by=ADA, session="tab 1")
    assert nodes.by_path("/page")["metadata"]["detail"]["text"] == "abc"
    with pytest.raises(EditConflict):
        nodes.edit(page, nonce, {"detail": {"text": "x"}}, by=ADA, session="tab 2")
    nodes.edit(page, nodes.by_path("/page")["metadata"]["nonce"], {"title": "Two"}, by=BEN, session="ben")
    with pytest.raises(EditConflict):
        nodes.edit(page, nonce, {"detail": {"text": "abcd"}}, by=ADA, session="tab 1")


def test_an_unknown_nonce_is_a_conflict_without_a_base(nodes: Nodes) -> None:
    page = nodes.create(None, "page", "basic-page", "One", ADA)
    with pytest.raises(EditConflict) as caught:
        nodes.edit(page, "guessed", {"title": "Two"}, session="mine")
    assert (caught.value.base, caught.value.yours) == (None, {"title": "Two"})


def test_history_holds_every_version_and_restores_any(nodes: Nodes, clock: ManualClock) -> None:
    page = nodes.create(None, "page", "basic-page", "One", ADA, {"text": "first"})
    for number in range(2, 6):
        clock.forward(minutes=1)
        page = nodes.edit(page, page["metadata"]["nonce"], {"title": f"No {number}", "detail": {"text": "x"}}, by=BEN)
    versions = nodes.history(page, limit=3)
    assert [revision["version"] for revision in versions.items] == [5, 4, 3]
    rest = nodes.history(page, cursor=versions.next)
    first = rest.items[-1]
    assert (first["author"], first["metadata"]["detail"]["text"]) == (ADA, "first")
    restored = nodes.restore(page, first["nonce"], by=ADA)
    assert restored["metadata"]["title"] == "One"
    assert restored["metadata"]["version"] == 6
    assert len(nodes.history(page).items) == 6
    with pytest.raises(UnknownNode):
        nodes.restore(page, "never")


def test_tags_need_no_nonce(nodes: Nodes) -> None:
    page = nodes.create(None, "page", "basic-page", "One", ADA, tags=["a"])
    nonce = page["metadata"]["nonce"]
    assert nodes.add_tags(page, ["b", "A"])["metadata"]["tags"] == ["a", "b"]
    assert nodes.remove_tags(page, ["a"])["metadata"]["tags"] == ["b"]
    assert nodes.edit(page, nonce, {"title": "Two"})["metadata"]["tags"] == ["b"]
    with pytest.raises(LimitReached):
        nodes.add_tags(page, [f"t{n}" for n in range(MAX_TAGS)])
    full = nodes.add_tags(page, [f"t{n}" for n in range(MAX_TAGS - 1)])
    assert nodes.add_tags(page, ["b", "t1"]) == full
    with pytest.raises(Invalid):
        nodes.change_tags(page, remove=["b"], add=["a,b"])
    assert nodes.change_tags(page, remove=["t1"], add=["z"])["metadata"]["tags"][-2:] == [f"t{MAX_TAGS - 2}", "z"]


def test_a_scheduled_node_appears_at_its_time_and_nowhere_before(nodes: Nodes, clock: ManualClock) -> None:
    blog = nodes.create(None, "blog", "blog", "Blog", ADA, published=clock.now)
    entry = nodes.create(blog, "soon", "blog-entry", "Soon", ADA, tags=["new"])
    lists: list[Callable[[], list[Any]]] = [
        lambda: nodes.recent(blog, viewer=ANYBODY).items,
        lambda: nodes.recent(blog).items,
        lambda: nodes.tagged("new", viewer=ANYBODY).items,
        lambda: nodes.tagged("new").items,
        lambda: nodes.children(blog, viewer=ANYBODY).items,
    ]
    nodes.publish(entry, clock.now + timedelta(hours=1))
    for _ in range(2):
        assert [items() for items in lists] == [[], [], [], [], []]
        for read in (nodes.by_path, lambda path, viewer: nodes.by_id(entry["_id"], viewer=viewer)):
            with pytest.raises(UnknownNode):
                read("/blog/soon", viewer=ANYBODY)
        assert [node["_id"] for node in nodes.unpublished(blog, viewer=EDITOR).items] == [entry["_id"]]
        assert nodes.unpublished(blog, viewer=ANYBODY).items == []
        clock.forward(minutes=59)
    clock.forward(minutes=-58)
    clock.forward(minutes=1)
    assert all(len(items()) == 1 for items in lists)
    assert nodes.by_path("/blog/soon", viewer=ANYBODY)["_id"] == entry["_id"]
    nodes.unpublish(entry)
    assert [items() for items in lists] == [[], [], [], [], []]


def test_recent_is_newest_first_and_paged(nodes: Nodes, clock: ManualClock) -> None:
    blog = nodes.create(None, "blog", "blog", "Blog", ADA, published=clock.now)
    for number in range(7):
        clock.forward(minutes=number % 2)
        nodes.create(blog, f"e{number}", "blog-entry", f"E{number}", ADA, published=clock.now)
    seen: list[str] = []
    cursor = None
    while True:
        found = nodes.recent(blog, cursor=cursor, limit=2, viewer=ANYBODY)
        seen += [node["metadata"]["slug"] for node in found.items]
        if (cursor := found.next) is None:
            break
    assert sorted(seen) == [f"e{number}" for number in range(7)]
    assert seen[0] in ("e5", "e6")
    assert seen[-1] == "e0"


def test_access_is_inherited_and_obeyed_everywhere(nodes: Nodes, clock: ManualClock) -> None:
    team = nodes.create(None, "team", "folder", "Team", ADA, published=clock.now)
    inner = nodes.create(team, "inner", "folder", "Inner", ADA, published=clock.now)
    secret = nodes.create(inner, "secret", "basic-page", "Secret", ADA, tags=["x"], published=clock.now)
    public = nodes.create(inner, "public", "basic-page", "Public", ADA, tags=["x"], published=clock.now)
    nodes.set_access(team, {"read": ["role:team"], "edit": ["user:tim"]})
    nodes.set_access(public, {"read": ["everyone"], "edit": []})
    member, tim = Viewer("mia", frozenset({"team"})), Viewer("tim")

    def seen(viewer: Viewer) -> list[list[str]]:
        found = [
            nodes.tagged("x", viewer=viewer),
            nodes.recent(inner, viewer=viewer),
            nodes.children(inner, viewer=viewer),
        ]
        return [sorted(node["metadata"]["slug"] for node in page.items) for page in found]

    assert seen(ANYBODY) == [["public"]] * 3
    assert seen(member) == seen(tim) == seen(Viewer("ada")) == [["public", "secret"]] * 3
    with pytest.raises(UnknownNode):
        nodes.by_path("/team/inner/secret", viewer=ANYBODY)
    assert nodes.by_path("/team/inner/secret", viewer=member)["_id"] == secret["_id"]
    nonce = secret["metadata"]["nonce"]
    for change in (
        lambda viewer: nodes.edit(secret, nonce, {"title": "x"}, viewer=viewer),
        lambda viewer: nodes.remove(secret, viewer=viewer),
        lambda viewer: nodes.add_tags(secret, ["y"], viewer=viewer),
        lambda viewer: nodes.publish(secret, viewer=viewer),
        lambda viewer: nodes.move(secret, None, viewer=viewer),
        lambda viewer: nodes.history(secret, viewer=viewer),
        lambda viewer: nodes.create(inner, "new", "folder", "T", BEN, viewer=viewer),
    ):
        with pytest.raises(Forbidden):
            change(member)
        with pytest.raises(UnknownNode):  # not even that it is there
            change(ANYBODY)
    assert nodes.edit(secret, nonce, {"title": "x"}, viewer=tim)["metadata"]["title"] == "x"
    nodes.set_access(team, None)
    assert seen(ANYBODY) == [["public", "secret"]] * 3


def test_nodes_below_a_draft_or_scheduled_node_are_hidden(nodes: Nodes, clock: ManualClock) -> None:
    year = nodes.create(None, "year", "folder", "Year", ADA, published=clock.now)
    guide = nodes.create(year, "guide", "folder", "Guide", ADA, published=clock.now + timedelta(hours=1))
    part = nodes.create(guide, "part", "folder", "Part", ADA, published=clock.now)
    page = nodes.create(part, "one", "basic-page", "One", BEN, tags=["t"], published=clock.now)
    nodes.set_access(page, {"read": ["everyone"], "edit": ["role:editor"]})

    def seen(viewer: Viewer) -> list[bool]:
        reads = [
            lambda: nodes.by_path("/year/guide/part/one", viewer=viewer),
            lambda: nodes.by_id(page["_id"], viewer=viewer),
        ]
        lists = [lambda: nodes.tagged("t", viewer=viewer), lambda: nodes.recent(part, viewer=viewer)]
        return [_found(read) for read in reads] + [bool(read().items) for read in lists]

    assert seen(ANYBODY) == [False] * 4
    assert seen(EDITOR) == seen(Viewer("ben")) == [True] * 4
    clock.forward(hours=1)
    assert seen(ANYBODY) == [True] * 4
    nodes.unpublish(guide)
    assert seen(ANYBODY) == [False] * 4


def _found(read: Callable[[], object]) -> bool:
    try:
        read()
    except UnknownNode:
        return False
    return True


def test_publishing_again_keeps_the_time(nodes: Nodes, clock: ManualClock) -> None:
    then = datetime(2019, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)
    old = nodes.create(None, "old", "basic-page", "Old", ADA, published=then)
    assert nodes.publish(old)["metadata"]["published"] == then
    soon = nodes.create(None, "soon", "basic-page", "Soon", ADA, published=clock.now + timedelta(days=1))
    draft = nodes.create(None, "draft", "basic-page", "Draft", ADA)
    assert [nodes.publish(node)["metadata"]["published"] for node in (soon, draft)] == [clock.now, clock.now]
    assert nodes.publish(old, clock.now)["metadata"]["published"] == clock.now


def test_a_page_is_filled_past_what_is_hidden(plain_nodes: Nodes) -> None:
    nodes = plain_nodes
    now = datetime(2026, 1, 1, tzinfo=UTC)
    box = nodes.create(None, "box", "folder", "Box", ADA, published=now)
    for number in range(30):
        node = nodes.create(box, f"n{number:02}", "basic-page", "N", ADA, tags=["t"], published=now)
        if number % 5:
            nodes.set_access(node, {"read": [], "edit": []})
    seen, cursor = [], None
    while True:
        found = nodes.tagged("t", cursor=cursor, limit=4, viewer=ANYBODY)
        seen += [node["metadata"]["slug"] for node in found.items]
        if (cursor := found.next) is None:
            break
    assert seen == ["n25", "n20", "n15", "n10", "n05", "n00"]


def test_a_move_takes_everything_below_along(nodes: Nodes) -> None:
    old = nodes.create(None, "old", "folder", "Old", ADA)
    new = nodes.create(None, "new", "folder", "New", ADA)
    page = nodes.create(old, "page", "folder", "Page", ADA)
    nodes.create(page, "below", "basic-page", "Below", ADA)
    moved = nodes.move(page, new, "renamed", by=BEN)
    assert nodes.by_path("/new/renamed/below")["metadata"]["title"] == "Below"
    assert moved["metadata"]["nonce"] != page["metadata"]["nonce"]
    assert [nodes.by_path(path)["metadata"]["num_children"] for path in ("/old", "/new")] == [0, 1]
    with pytest.raises(UnknownNode):
        nodes.by_path("/old/page")
    assert nodes.edit(page, moved["metadata"]["nonce"], {"title": "By the old document"})["metadata"]["version"] == 3
    top = nodes.move(moved, None)
    assert nodes.path_of(top) == "/renamed"
    assert nodes.by_path("/new")["metadata"]["num_children"] == 0


def test_an_old_path_leads_to_the_new_one(nodes: Nodes, clock: ManualClock) -> None:
    old = nodes.create(None, "old", "folder", "Old", ADA, published=clock.now)
    new = nodes.create(None, "new", "folder", "New", ADA, published=clock.now)
    page = nodes.create(old, "page", "folder", "Page", ADA, published=clock.now)
    nodes.create(page, "below", "basic-page", "Below", ADA, published=clock.now)
    nodes.move(page, new, "renamed")
    assert nodes.moved_to("/old/page/below", viewer=ANYBODY) == "/new/renamed/below"
    nodes.move(nodes.by_path("/new/renamed/below"), None, "top")
    assert nodes.moved_to("/old/page/below") == nodes.moved_to("/new/renamed/below") == "/top"
    assert nodes.moved_to("/old/page") == "/new/renamed"
    nodes.set_access(new, {"read": [], "edit": []})
    with pytest.raises(UnknownNode):  # nor is it said where it is
        nodes.moved_to("/old/page", viewer=ANYBODY)
    for path in ("/old/never", "/never/page"):
        with pytest.raises(UnknownNode):
            nodes.moved_to(path)


def test_a_path_leads_to_its_current_node_else_to_the_last_one(nodes: Nodes, clock: ManualClock) -> None:
    first = nodes.create(None, "place", "basic-page", "First", ADA)
    nodes.move(first, None, "first")
    clock.forward(minutes=1)
    second = nodes.create(None, "place", "basic-page", "Second", ADA)
    assert nodes.moved_to("/place") == "/place"
    nodes.move(second, None, "second")
    assert nodes.moved_to("/place") == "/second"
    nodes.remove(second)
    with pytest.raises(UnknownNode):
        nodes.moved_to("/place")


def test_a_move_into_itself_or_onto_another_is_refused(nodes: Nodes) -> None:
    a = nodes.create(None, "a", "folder", "A", ADA)
    b = nodes.create(a, "b", "folder", "B", ADA)
    c = nodes.create(b, "c", "folder", "C", ADA)
    nodes.create(None, "b", "folder", "Other", ADA)
    for target in (a, b, c):
        with pytest.raises(Invalid, match="into itself"):
            nodes.move(a, target)
    with pytest.raises(SlugTaken):
        nodes.move(b, None)
    assert nodes.path_of(c) == "/a/b/c"


def test_the_tree_has_a_greatest_depth(plain_nodes: Nodes) -> None:
    at = None
    for number in range(MAX_DEPTH):
        at = plain_nodes.create(at, f"d{number}", "folder", "D", ADA)
    with pytest.raises(LimitReached):
        plain_nodes.create(at, "deeper", "folder", "D", ADA)
    assert plain_nodes.by_path(plain_nodes.path_of(at))["_id"] == at["_id"]


def test_a_move_takes_no_tree_too_deep(plain_nodes: Nodes) -> None:
    at, parent = None, plain_nodes.create(None, "parent", "folder", "P", ADA)
    chain = [at := plain_nodes.create(at, f"d{number}", "folder", "D", ADA) for number in range(MAX_DEPTH)]
    plain_nodes.create(chain[0], "leaf", "basic-page", "L", ADA)
    with pytest.raises(LimitReached):
        plain_nodes.move(chain[0], parent)
    plain_nodes.move(chain[0], None, "renamed")
    plain_nodes.move(chain[1], parent)
    assert plain_nodes.by_path(plain_nodes.path_of(at))["_id"] == at["_id"]


def test_single_updates_follow_a_node_that_is_moved_meanwhile(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    page = nodes.create(None, "page", "basic-page", "Page", ADA)
    look, places = nodes.editable, iter(["second", "third"])

    def moved_behind_its_back(*args: Any) -> Any:
        found = look(*args)
        if place := next(places, None):
            monkeypatch.setattr(nodes, "editable", look)
            nodes.move(page["_id"], None, place)
            monkeypatch.setattr(nodes, "editable", moved_behind_its_back)
        return found

    monkeypatch.setattr(nodes, "editable", moved_behind_its_back)
    assert nodes.add_tags(page, ["followed"])["metadata"]["slug"] == "third"
    assert nodes.by_path("/third")["metadata"]["tags"] == ["followed"]


def test_a_path_that_no_node_can_have_is_unknown(plain_nodes: Nodes) -> None:
    for path in ("/Upper", "/a b", "/é", "/", "/a" * (MAX_DEPTH + 1)):
        for find in (plain_nodes.by_path, plain_nodes.moved_to):
            with pytest.raises(UnknownNode):
                find(path)


def test_only_an_empty_node_is_removed(nodes: Nodes, site: Db) -> None:
    folder = nodes.create(None, "folder", "folder", "F", ADA)
    page = nodes.create(folder, "page", "basic-page", "P", ADA)
    with pytest.raises(NotEmpty):
        nodes.remove(folder)
    nodes.remove(page)
    assert nodes.by_path("/folder")["metadata"]["num_children"] == 0
    nodes.remove(folder)
    for gone in (page, folder):
        with pytest.raises(UnknownNode):
            nodes.remove(gone)
    assert site["content.nodes"].count_documents({}) == 0
    assert site["content.removals"].count_documents({"kind": "node"}) == 2
