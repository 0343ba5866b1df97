"""A block stays secret: whatever its target does by id, the answers are those for somebody who does not exist."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from tests.systems.social.conftest import Ticking

from squinney.errors import SquinneyError
from squinney.mongo.schema import Db
from squinney.social import Network, find_problems, repair, rules

OPEN = ["*public*"]
HELLO = {"text": "hello"}
People = Callable[..., list[str]]
Act = Callable[[Network, str, str], object]

# What a member can do to another whose id they know, and what they can read.
DEEDS: dict[str, Act] = {
    "circle": lambda network, me, other: network.circle(me, other, "friends"),
    "uncircle": lambda network, me, other: network.uncircle(me, other, "old"),
    "block": lambda network, me, other: network.block(me, other),
    "unblock": lambda network, me, other: network.unblock(me, other),
    "mute": lambda network, me, other: network.mute(me, other),
    "unmute": lambda network, me, other: network.unmute(me, other),
    "post": lambda network, me, other: network.post(me, "status", HELLO, OPEN, other)["to"],
}
READS: dict[str, Act] = {
    "profile": lambda network, me, other: network.profile(me, other),
    "wall": lambda network, me, other: _items(network.wall(me, other)),
}
OWN_LISTS: dict[str, Act] = {
    "get": lambda network, me, other: network.get(me)["circles"],
    "own profile": lambda network, me, other: network.profile(me, me)["followers"],
    "circles": lambda network, me, other: _items(network.circles(me)),
    "followers": lambda network, me, other: _items(network.followers(me)),
    "blocked": lambda network, me, other: [{**item, "at": None} for item in _items(network.blocked(me))],
    "members": lambda network, me, other: [item for item in _items(network.members(me)) if item["id"] == other],
    "news": lambda network, me, other: _items(network.news(me)),
    "incoming": lambda network, me, other: _items(network.incoming(me)),
    "public": lambda network, me, other: [post for post in _items(network.public(me)) if post["by"]["id"] == other],
    "own wall": lambda network, me, other: _items(network.wall(me, me)),
    "notices": lambda network, me, other: _items(network.notices(me)),
    "unseen": lambda network, me, other: network.unseen(me),
    "export": lambda network, me, other: _edges(network, me),
}
WITHOUT_ANOTHER = {"join", "find", "load", "deliver", "get_post", "comments", "public", "members"}


def _items(page: Any) -> list[Any]:
    return list(page.items)


def _edges(network: Network, me: str) -> list[Any]:
    people = [document for document in network.export(me) if document["what"] == "person"]
    return [{**person, "blocked_at": "blocked_at" in person} for person in people]


def _answer(network: Network, act: Act, me: str, other: str) -> str:
    """Return what `me` learns, with the same names for all: the ids differ, nothing else may."""
    try:
        answer = repr(act(network, me, other))
    except SquinneyError as error:
        answer = f"{type(error).__name__} {error.code} {error.message} {error.details}"
    return answer.replace(other, "OTHER").replace(other.title(), "Other").replace(me, "ME").replace(me.title(), "Me")


def _all_answers(network: Network, deeds: tuple[str, ...], me: str, other: str) -> list[tuple[str, str]]:
    answers = [(deed, _answer(network, DEEDS[deed], me, other)) for deed in deeds]
    return answers + [(name, _answer(network, act, me, other)) for name, act in {**READS, **OWN_LISTS}.items()]


def test_every_operation_with_another_members_id_is_walked() -> None:
    others = {"other", "user", "owner", "to"}
    methods = {name: member for name, member in vars(Network).items() if inspect.isfunction(member) and name[0] != "_"}
    found = {name for name, member in methods.items() if others & inspect.signature(member).parameters.keys()}
    assert found - WITHOUT_ANOTHER == {*DEEDS, *READS}


@pytest.mark.parametrize("first", DEEDS)
def test_who_blocked_somebody_answers_them_like_nobody(network: Network, people: People, first: str) -> None:
    """Two deeds in a row, then every read. The two knew each other before the block; nobody never existed."""
    for second in DEEDS:
        ann, bob, eve = people(*(f"{name}-{second}" for name in ("ann", "bob", "eve")))
        network.circle(ann, bob, "old")
        network.circle(bob, ann, "old")
        network.post(bob, "status", HELLO, OPEN, ann)
        network.post(bob, "status", HELLO, ["old"])
        network.block(bob, ann)
        network.deliver()
        blocked = _all_answers(network, (first, second), ann, bob)
        nobody = _all_answers(network, (first, second), eve, f"dot-{second}")
        assert blocked == nobody, (first, second)


def test_blocking_first_does_not_tell_whether_the_other_blocked_too(network: Network, people: People) -> None:
    deeds = [deed for deed in DEEDS if deed != "unblock"]  # then the other is visible, or hidden like nobody
    for number, pair in enumerate(product(deeds, deeds)):
        ann, bob, eve, dot = people(*(f"{name}{number:02}x" for name in ("ann", "bob", "eve", "dot")))
        for me, other in ((ann, bob), (eve, dot)):
            network.circle(other, me, "old")
            network.post(other, "status", HELLO, OPEN, me)
            network.block(me, other)
        network.block(bob, ann)
        network.deliver()
        answers = [_without_times(_all_answers(network, pair, *two)) for two in ((ann, bob), (eve, dot))]
        assert answers[0] == answers[1], pair


def _without_times(answers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, answer.split("datetime")[0] if name == "profile" else answer) for name, answer in answers]


def test_who_blocks_back_stays_hidden_and_is_safe_when_the_first_block_ends(network: Network, people: People) -> None:
    ann, bob = people("ann", "bob")
    network.block(bob, ann)
    network.block(ann, bob)
    network.unblock(bob, ann)
    assert _answer(network, DEEDS["circle"], bob, ann).startswith("UnknownUser")
    assert network.profile(ann, bob)["blocked"]
    network.unblock(ann, bob)
    assert network.profile(bob, ann)["name"] == "Ann"


def test_an_id_is_blocked_before_it_joins(network: Network, people: People) -> None:
    (ann,) = people("ann")
    network.block(ann, "eve")
    assert [(item["id"], item["name"]) for item in network.blocked(ann).items] == [("eve", None)]
    people("eve")
    assert _answer(network, READS["profile"], "eve", ann).startswith("UnknownUser")
    assert [item["name"] for item in network.blocked(ann).items] == ["Eve"]


def test_a_block_ends_circles_in_both_directions(network: Network, people: People, social_db: Db) -> None:
    ann, bob = people("ann", "bob")
    network.circle(ann, bob, "friends")
    network.circle(bob, ann, "friends")
    network.block(ann, bob)
    assert (network.get(bob)["circles"], network.get(ann)["circles"]) == ([], [])
    network.unblock(ann, bob)
    assert (network.circles(ann).items, network.followers(ann).items) == ([], [])
    assert social_db["social.notices"].count_documents({}) == 0
    assert list(find_problems(social_db)) == []


def test_an_import_leaves_blocked_pairs_out(network: Network, people: People, social_db: Db) -> None:
    ann, bob = people("ann", "bob")
    network.block(ann, bob)
    assert list(network.load([(ann, bob), (bob, ann), (bob, "cid")])) == [1]
    assert list(find_problems(social_db)) == []


def test_circles_that_older_versions_left_across_a_block_are_ended(
    network: Network, people: People, social_db: Db, clock: Ticking, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob, cid = people("ann", "bob", "cid")
    for me, other in ((ann, bob), (bob, ann), (cid, ann)):
        network.circle(me, other, "friends")
    now = clock()
    social_db["social.edges"].update_one({"_id": {"owner": ann, "other": bob}}, {"$set": {"blocked_at": now}})
    social_db["social.edges"].update_one({"_id": {"owner": bob, "other": ann}}, {"$set": {"blocked_by_at": now}})
    social_db["social.users"].update_one({"_id": ann}, {"$set": {"blocks": 1}})
    assert [problem.code for problem in find_problems(social_db)] == ["circles-across-block"]
    assert repair(social_db) == {"circles ended": 1}
    assert list(find_problems(social_db)) == []
    assert [item["id"] for item in network.followers(ann).items] == [cid]


def test_the_limit_of_blocks_and_mutes_holds_for_unknown_ids(
    network: Network, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ann,) = people("ann")
    monkeypatch.setattr(rules, "MAX_BLOCKS", 2)
    monkeypatch.setattr(rules, "MAX_MUTES", 2)
    for deed in ("block", "mute"):
        answers = [_answer(network, DEEDS[deed], ann, f"nobody-{number}") for number in range(3)]
        assert answers[:2] == ["None", "None"]
        assert answers[2].startswith("SocialLimit")
