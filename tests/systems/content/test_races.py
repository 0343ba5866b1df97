"""Races between many threads on the same nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.racing import outcomes
from tests.sizes import IN_FULL, heavy
from tests.systems.content.conftest import ADA, BEN

from squinney.content import EditConflict, Nodes, NotEmpty, SlugTaken, UnknownNode
from squinney.errors import Invalid
from squinney.mongo.schema import Db

EDITORS = 200 if IN_FULL else 60


@heavy
def test_many_editors_on_one_page(nodes: Nodes) -> None:
    page = nodes.create(None, "page", "basic-page", "Start", ADA)

    def editor(number: int) -> Callable[[], Any]:
        def attempt() -> Any:
            seen = nodes.by_id(page["_id"])
            return nodes.edit(seen, seen["metadata"]["nonce"], {"title": f"By {number}"}, by=BEN, session=f"s{number}")

        return attempt

    results = outcomes([editor(number) for number in range(EDITORS)], threads=EDITORS // 2)
    accepted = [result for result in results if isinstance(result, dict)]
    refused = [result for result in results if isinstance(result, EditConflict)]
    assert len(accepted) + len(refused) == EDITORS
    assert accepted
    assert refused
    kept = {}
    cursor = None
    while True:
        found = nodes.history(page, cursor=cursor, limit=200)
        kept.update({revision["nonce"]: revision for revision in found.items})
        if (cursor := found.next) is None:
            break
    assert len(kept) == len(accepted) + 1
    for result in accepted:
        assert kept[result["metadata"]["nonce"]]["metadata"]["title"] == result["metadata"]["title"]
    assert sorted(revision["version"] for revision in kept.values()) == list(range(1, len(accepted) + 2))
    for conflict in refused:
        assert conflict.base["title"] != conflict.yours["title"]
        assert conflict.theirs["version"] > conflict.base["version"]
        assert conflict.yours["title"].startswith("By ")


def test_one_persons_queued_saves_all_arrive(nodes: Nodes) -> None:
    page = nodes.create(None, "page", "basic-page", "Start", ADA)
    nonce = page["metadata"]["nonce"]
    saves = [
        lambda n=n: nodes.edit(page, nonce, {"detail": {"text": f"save {n}"}}, by=ADA, session="tab") for n in range(20)
    ]
    assert all(isinstance(result, dict) for result in outcomes(saves, threads=8))
    assert len(nodes.history(page).items) == 21


def test_a_slug_has_one_winner(nodes: Nodes, site: Db) -> None:
    blog = nodes.create(None, "blog", "blog", "Blog", ADA)
    results = outcomes([lambda: nodes.create(blog, "same", "blog-entry", "T", ADA)] * 12, threads=12)
    kinds = Counter(type(result) for result in results)
    assert kinds == {dict: 1, SlugTaken: 11}
    assert nodes.by_path("/blog")["metadata"]["num_children"] == 1
    assert site["content.nodes"].count_documents({}) == 2
    assert site["content.revisions"].count_documents({}) == 2


def test_of_concurrent_moves_to_one_path_one_wins(nodes: Nodes) -> None:
    target = nodes.create(None, "target", "folder", "T", ADA)
    pages = [nodes.create(None, f"p{number}", "basic-page", "P", ADA) for number in range(8)]
    results = outcomes([lambda page=page: nodes.move(page, target, "same") for page in pages], threads=8)
    kinds = Counter(type(result) for result in results)
    assert kinds == {dict: 1, SlugTaken: 7}
    assert nodes.by_path("/target")["metadata"]["num_children"] == 1


def test_moves_into_each_other_make_no_cycle(nodes: Nodes) -> None:
    for number in range(5):
        a = nodes.create(None, f"a{number}", "folder", "A", ADA)
        b = nodes.create(None, f"b{number}", "folder", "B", ADA)
        results = outcomes([lambda a=a, b=b: nodes.move(a, b), lambda a=a, b=b: nodes.move(b, a)], threads=2)
        assert Counter(type(result) for result in results) == {dict: 1, Invalid: 1}
        assert {nodes.path_of(a), nodes.path_of(b)} in (
            {f"/a{number}", f"/a{number}/b{number}"},
            {f"/b{number}", f"/b{number}/a{number}"},
        )


def test_no_child_is_left_without_its_parent(nodes: Nodes, site: Db) -> None:
    for number in range(5):
        folder = nodes.create(None, f"f{number}", "folder", "F", ADA)
        results = outcomes(
            [
                lambda f=folder: nodes.create(f, "child", "basic-page", "C", ADA),
                lambda f=folder: nodes.remove(f),
            ],
            threads=2,
        )
        assert {type(result) for result in results} in ({dict, NotEmpty}, {UnknownNode, type(None)})
    for child in site["content.nodes"].find({"metadata.slug": "child"}):
        assert site["content.nodes"].find_one({"_id": child["metadata"]["parent_id"]})
