"""Turn what a player types after a command into calls of actions.

A number before a thing (`3 coin`) is a part of a stack, and `all` makes a call for each thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from squinney.errors import Invalid
from squinney.game import Character, Entry, OutOfReach, World, rules
from squinney.game.entries import all_entries
from squinney.game.surface import words

LETTERS = {name: letter for letter, name in rules.DIRECTIONS.items()}


@dataclass(frozen=True)
class Call:
    """An action by its name in the table, with its fields."""

    action: str
    fields: dict[str, Any]


# ---- walk and talk ----


def move(world: World, me: Character, rest: str) -> list[Call]:
    """Read the direction after `go`."""
    return [Call("move", {"direction": LETTERS.get(rest, _needed(rest, "Go where?"))})]


def say(world: World, me: Character, rest: str) -> list[Call]:
    """Read the words after `say`."""
    return [Call("say", {"text": _needed(rest, "Say what?")})]


# ---- things on the floor, in hands and in containers ----


def take(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to take from the floor, or `from` a container."""
    thing, bag = words.split_at(rest, "from", "out of")
    if not bag:
        return _each("pick-up", me["location"]["inventory"], thing, "there is no {} here")
    container = words.find_named(within_reach(me), bag)["id"]
    inside = world.contents(me["_id"], container)
    return _each("take-out", inside, thing, "there is no {} in it", container=container)


def drop(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to drop."""
    return _each("drop", _not_in_use(me) if rest == "all" else me["inventory"], rest)


def put(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to put, and `in` which container."""
    thing, bag = words.split_at(rest, "into", "in")
    container = words.find_named(within_reach(me), bag)["id"]
    others = [entry for entry in _not_in_use(me) if entry["id"] != container]
    return _each("put-in", others if thing == "all" else me["inventory"], thing, container=container)


def give(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to give, and `to` whom."""
    thing, name = words.split_at(rest, "to")
    to = words.find_named((player for player in me["location"]["players"] if player["id"] != me["_id"]), name)["id"]
    return [_some("give", me["inventory"], thing, to=to)]


# ---- wear, wield and use ----


def wear(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to wear."""
    return [Call("wear", {"item": _carried(me, rest)["id"]})]


def remove(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to take off or put away."""
    return [Call("remove", {"item": _carried(me, rest)["id"]})]


def use(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to use."""
    return [Call("use", {"item": _carried(me, rest)["id"]})]


def wield(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to wield, and `in` which hand; a free one if no hand is named."""
    name, hand = words.split_at(rest, "in")
    free = "left" if any(weapon["hand"] == "right" for weapon in me["weapons"]) else "right"
    hand = hand.removesuffix("hand").removesuffix("hands").strip() or free
    return [Call("wield", {"item": _carried(me, name)["id"], "hand": hand})]


# ---- trade ----


def buy(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to buy."""
    keeper = shopkeeper(me)
    qty, name = words.split_count(rest)
    good = words.find_named(world.goods(keeper), name, "there is no {} for sale here")["id"]
    return [Call("buy", {"shopkeeper": keeper, "item": good, "qty": qty or 1})]


def sell(world: World, me: Character, rest: str) -> list[Call]:
    """Read what to sell."""
    qty, name = words.split_count(rest)
    return [Call("sell", {"shopkeeper": shopkeeper(me), "item": _carried(me, name)["id"], "qty": qty or 1})]


# ---- what words refer to ----


def within_reach(me: Character) -> list[Any]:
    """Return what the character carries, also in containers, and what lies in the room."""
    return [*all_entries(me["inventory"]), *me["location"]["inventory"]]


def shopkeeper(me: Character) -> str:
    """Return the id of the room's shopkeeper. Raises: `OutOfReach`."""
    for player in me["location"]["players"]:
        if player["kind"] == "shopkeeper":
            return str(player["id"])
    raise OutOfReach("nobody keeps a shop here")


def _each(action: str, entries: Sequence[Any], thing: str, missing: str = "you carry no {}", **more: str) -> list[Call]:
    """Return a call for every entry if the word is `all`, and otherwise for the named one."""
    if thing == "all":
        return [Call(action, {**more, "item": entry["id"]}) for entry in entries]
    return [_some(action, entries, thing, missing, **more)]


def _some(action: str, entries: Iterable[Any], thing: str, missing: str = "you carry no {}", **more: str) -> Call:
    qty, name = words.split_count(thing)
    return Call(action, {**more, "item": words.find_named(entries, name, missing)["id"], "qty": qty})


def _carried(me: Character, name: str) -> Entry:
    entry: Entry = words.find_named(me["inventory"], name, "you carry no {}")
    return entry


def _not_in_use(me: Character) -> list[Entry]:
    used = rules.in_use(me)
    return [entry for entry in me["inventory"] if entry["id"] not in used]


def _needed(words_given: str, question: str) -> str:
    if not words_given:
        raise Invalid(question)
    return words_given
