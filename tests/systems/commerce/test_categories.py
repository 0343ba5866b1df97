"""Tests of the category tree, also with concurrent changes."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.racing import at_once, outcomes
from tests.systems.commerce.conftest import product

from squinney.commerce import (
    Catalog,
    Categories,
    CategoryNotEmpty,
    DepthLimit,
    SlugTaken,
    UnknownCategory,
    breadcrumbs,
)
from squinney.commerce.categories.documents import CATEGORY_TREE
from squinney.errors import Invalid
from squinney.mongo.schema import Db
from squinney.patterns.ancestors import Cycle
from squinney.testing.server_commands import Commands
from squinney.transactions import KeyReused, Stale


@pytest.fixture
def categories(shop_db: Db) -> Categories:
    """An empty tree."""
    return Categories(shop_db)


@pytest.fixture
def music(categories: Categories) -> Categories:
    """A tree with the roots Music > (Jazz > (Bebop, Swing > Big Band), Rock) and Films."""
    for name, parent in [
        ("Music", None),
        ("Jazz", "music"),
        ("Bebop", "jazz"),
        ("Swing", "jazz"),
        ("Big Band", "swing"),
        ("Rock", "music"),
        ("Films", None),
    ]:
        categories.add(name, parent=parent)
    return categories


def trail(categories: Categories, slug: str) -> list[str]:
    """Return the names of the breadcrumbs."""
    return [crumb["name"] for crumb in breadcrumbs(categories.get(slug))]


def require_sound(db: Db) -> None:
    """Assert that ancestors match the parent ids, and that siblings are numbered without gaps."""
    nodes = list(db["commerce.categories"].find())
    found = CATEGORY_TREE.rebuilt(nodes)
    assert (found.orphans, found.cycles) == ([], [])
    for node in nodes:
        assert node["ancestors"] == found.ancestors[node["_id"]]
    siblings: dict[Any, list[int]] = {}
    for node in nodes:
        siblings.setdefault(node["parent"], []).append(node["position"])
    for positions in siblings.values():
        assert sorted(positions) == list(range(len(positions)))


def names(page: Any) -> list[str]:
    """Return the names of a page's categories."""
    return [category["name"] for category in page.items]


def test_breadcrumbs_children_descendants_and_tree(music: Categories, shop_db: Db) -> None:
    assert trail(music, "big-band") == ["Music", "Jazz", "Swing", "Big Band"]
    assert names(music.children("jazz")) == ["Bebop", "Swing"]
    assert names(music.children()) == ["Music", "Films"]
    assert sorted(names(music.descendants("music"))) == ["Bebop", "Big Band", "Jazz", "Rock", "Swing"]
    first = music.children("music", limit=1)
    assert names(first) + names(music.children("music", limit=1, cursor=first.next)) == ["Jazz", "Rock"]
    tree = music.tree()
    assert [node["name"] for node in tree] == ["Music", "Films"]
    assert [node["name"] for node in tree[0]["children"][0]["children"]] == ["Bebop", "Swing"]
    require_sound(shop_db)


def test_a_subtree_moves_with_all_below(music: Categories, shop_db: Db) -> None:
    moved = music.move("swing", "films")
    assert moved == music.get("swing")
    assert trail(music, "big-band") == ["Films", "Swing", "Big Band"]
    music.move("swing", None, position=0)
    assert names(music.children()) == ["Swing", "Music", "Films"]
    music.move("swing", "music", position=1)
    assert names(music.children("music")) == ["Jazz", "Swing", "Rock"]
    require_sound(shop_db)


@pytest.mark.parametrize(
    ("position", "order"),
    [(0, "CABD"), (1, "ACBD"), (2, "ABCD"), (3, "ABDC"), (9, "ABDC"), (None, "ABDC")],
)
def test_a_category_moves_among_its_siblings(
    categories: Categories, shop_db: Db, position: int | None, order: str
) -> None:
    for name in "ABCD":
        categories.add(name)
    categories.move("c", None, position)
    assert "".join(names(categories.children())) == order
    require_sound(shop_db)


def test_names_and_slugs_change_in_every_breadcrumb(music: Categories, shop_db: Db) -> None:
    assert music.rename("jazz", "Jazz & Blues")["name"] == "Jazz & Blues"
    assert trail(music, "big-band") == ["Music", "Jazz & Blues", "Swing", "Big Band"]
    music.change_slug("jazz", "jazz-blues")
    assert [crumb["slug"] for crumb in breadcrumbs(music.get("bebop"))] == ["music", "jazz-blues", "bebop"]
    with pytest.raises(UnknownCategory):
        music.get("jazz")
    require_sound(shop_db)


def test_removal_refuses_lifts_or_cascades(music: Categories, shop_db: Db) -> None:
    with pytest.raises(CategoryNotEmpty):
        music.remove("jazz")
    assert music.remove("jazz", children="lift") == 1
    assert names(music.children("music")) == ["Rock", "Bebop", "Swing"]
    assert trail(music, "big-band") == ["Music", "Swing", "Big Band"]
    require_sound(shop_db)
    swing = music.get("swing")["_id"]
    shop_db["commerce.products"].insert_one({"_id": "p", "category_ids": [swing, "other"]})
    assert music.remove("music", children="cascade") == 5
    assert names(music.children()) == ["Films"]
    assert shop_db["commerce.products"].find_one()["category_ids"] == ["other"]  # type: ignore[index]
    require_sound(shop_db)


def test_an_editor_of_a_product_gets_a_conflict_when_its_category_is_removed(
    music: Categories, catalog: Catalog
) -> None:
    read = catalog.add(product("p", category_ids=[music.get("rock")["_id"]]))
    music.remove("rock")
    with pytest.raises(Stale):
        catalog.replace("p", read, expected_version=read["version"])
    assert (catalog.get("p")["category_ids"], catalog.get("p")["version"]) == ([], 2)


def test_a_category_is_added_and_moved_once_per_key(music: Categories, shop_db: Db) -> None:
    added = at_once(4, lambda _: music.add("Blues", key="k"))
    assert added == [added[0]] * 4
    assert shop_db["commerce.categories"].count_documents({"name": "Blues"}) == 1
    with pytest.raises(KeyReused):
        music.add("Soul", key="k")
    other = music.add("Other")
    moved = music.move("blues", "music", key="k")
    music.move("blues", "other")
    assert music.move("blues", "music", key="k") == moved
    assert music.get("blues")["parent"] == other["_id"], "the repeat took nothing back"


def test_slugs_are_made_from_names_and_are_unique(categories: Categories) -> None:
    assert categories.add("Ça & là!")["slug"] == "ca-la"
    second = categories.add("Ca La")["slug"]
    assert second.startswith("ca-la-")
    assert categories.add("音楽")["slug"]
    with pytest.raises(SlugTaken):
        categories.add("Other", slug="ca-la")
    with pytest.raises(SlugTaken):
        categories.change_slug(second, "ca-la")


REFUSED: list[tuple[Any, Callable[[Categories], object]]] = [
    (Cycle, lambda c: c.move("music", "music")),
    (Cycle, lambda c: c.move("music", "big-band")),
    (UnknownCategory, lambda c: c.move("music", "nowhere")),
    (UnknownCategory, lambda c: c.move("nowhere", "music")),
    (UnknownCategory, lambda c: c.add("Pop", parent="nowhere")),
    (UnknownCategory, lambda c: c.rename("nowhere", "x")),
    (UnknownCategory, lambda c: c.remove("nowhere")),
    (UnknownCategory, lambda c: c.children("nowhere")),
    (Invalid, lambda c: c.add("")),
    (Invalid, lambda c: c.add("x" * 201)),
    (Invalid, lambda c: c.add("Pop", slug="Not A Slug")),
    (Invalid, lambda c: c.get({"$gt": ""})),  # type: ignore[arg-type]
    (Invalid, lambda c: c.move("jazz", "films", position=-1)),
    (Invalid, lambda c: c.remove("jazz", children="explode")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("error", "attempt"), REFUSED, ids=[f"{e.__name__}-{n}" for n, (e, _) in enumerate(REFUSED)])
def test_a_refusal_changes_nothing(music: Categories, shop_db: Db, error: Any, attempt: Any) -> None:
    before = list(shop_db["commerce.categories"].find())
    with pytest.raises(error):
        attempt(music)
    assert list(shop_db["commerce.categories"].find()) == before


def test_the_tree_has_a_maximum_depth(shop_db: Db) -> None:
    categories = Categories(shop_db, max_depth=3)
    categories.add_paths([["a", "b", "c"], ["x", "y"]])
    with pytest.raises(DepthLimit):
        categories.add("d", parent="c")
    with pytest.raises(DepthLimit):
        categories.move("x", "b")
    with pytest.raises(DepthLimit):
        categories.add_paths([["a", "b", "c", "d"]])
    categories.move("x", "a")
    require_sound(shop_db)


def test_changes_take_the_same_round_trips_on_small_and_large_trees(counted: tuple[Db, Commands], shop_db: Db) -> None:
    categories, commands = Categories(counted[0]), counted[1]
    taken: dict[str, list[list[str]]] = {}
    for size in (10, 1_500):
        shop_db["commerce.categories"].delete_many({})
        leaves = [["a", "top", f"n{n % 100}", f"n{n}"] for n in range(100, 100 + size)]
        categories.add_paths([["b"], ["a", "top"], *leaves])
        for kind, change in {
            "move": lambda: categories.move("top", "b"),
            "rename": lambda: categories.rename("top", "Top"),
            "slug": lambda: categories.change_slug("top", "peak"),
            "lift": lambda: categories.remove("peak", children="lift"),
            "cascade": lambda: categories.remove("b", children="cascade"),
        }.items():
            commands.sent.clear()
            change()
            taken.setdefault(kind, []).append(commands.names)
        assert shop_db["commerce.categories"].count_documents({}) == 1
    for kind, (small, large) in taken.items():
        assert small == large, kind
        assert len(large) <= 12, (kind, large)


def test_a_cycle_is_refused_in_a_race_too(categories: Categories, shop_db: Db) -> None:
    for name in ("A", "B"):
        categories.add(name)
    for _ in range(15):
        results = outcomes([lambda: categories.move("a", "b"), lambda: categories.move("b", "a")], threads=2)
        assert sorted(isinstance(result, Cycle) for result in results) == [False, True]
        require_sound(shop_db)
        categories.move("a", None)
        categories.move("b", None)


def test_random_concurrent_edits_leave_a_sound_tree(categories: Categories, shop_db: Db) -> None:
    categories.add_paths([[f"n{n % 5}", f"n{n % 5}-{n}"] for n in range(40)])
    slugs = [node["slug"] for node in shop_db["commerce.categories"].find()]
    chance = random.Random(3)

    def attempt() -> Callable[[], Any]:
        one, other, kind = chance.choice(slugs), chance.choice([*slugs, None]), chance.randrange(6)
        place = chance.choice([None, 0, 2])
        if kind < 3:
            return lambda: categories.move(one, other, place)
        if kind == 3:
            return lambda: categories.rename(one, f"N{place}")
        if kind == 4:
            return lambda: categories.add("new", parent=other)
        return lambda: categories.remove(one, children="lift")

    outcomes([attempt() for _ in range(100)])
    require_sound(shop_db)


def test_a_real_tree_is_added_by_its_paths(shop_db: Db, real_data: Callable[[str], Path]) -> None:
    with gzip.open(real_data("taxonomy.txt.gz"), "rt", encoding="utf-8") as lines:
        found = [line.split(" : ", 1)[1] for line in lines if " : " in line and line[0] != "#"]
    paths = [path.strip().split(" > ") for path in found[:2_000]]
    categories = Categories(shop_db)
    assert categories.add_paths(paths) == len({tuple(path) for path in paths})
    assert categories.add_paths(paths[:1_500]) == 0
    assert trail(categories, "live-animals") == ["Animals & Pet Supplies", "Live Animals"]
    categories.move("animals-pet-supplies", "arts-entertainment")
    assert trail(categories, "live-animals")[:2] == ["Arts & Entertainment", "Animals & Pet Supplies"]
    require_sound(shop_db)
