"""Wear armor, wield weapons, drink potions, and adjust a character's values."""

from __future__ import annotations

from collections.abc import Mapping

from squinney.game import rules
from squinney.game.actions.draft import Draft
from squinney.game.actions.hands import in_hands
from squinney.game.documents import Character, Event, Item
from squinney.game.entries import entries_without, entry_with
from squinney.game.errors import InUse, NotMadeForThat, OutOfReach
from squinney.transactions import Stale


def wear(draft: Draft, character: str, item: str) -> Event:
    """Plan how a character puts on armor."""
    actor, thing = in_hands(draft, character, item)
    if thing["kind"] != "armor":
        raise NotMadeForThat(f"{thing['name']} is nothing to wear", item_id=item)
    region = thing.get("region", "body")
    taken = [worn for worn in actor["armor"] if worn["region"] == region and region != "body"]
    if taken or item in rules.in_use(actor):
        raise InUse(f"something is worn on the {region} already", region=region)
    actor["armor"] = [*actor["armor"], {"id": item, "region": region}]
    return draft.add_event("wore", actor, f"{actor['name']} puts on {rules.described(thing)}", item_id=item)


def wield(draft: Draft, character: str, item: str, hand: str) -> Event:
    """Plan how a character takes a weapon into a hand, or into both if it needs two."""
    actor, thing = in_hands(draft, character, item)
    if thing["kind"] != "weapon":
        raise NotMadeForThat(f"{thing['name']} is no weapon", item_id=item)
    taken = "both" if thing.get("hands", 1) == 2 else hand
    if any(taken == "both" or weapon["hand"] in (taken, "both") or weapon["id"] == item for weapon in actor["weapons"]):
        raise InUse("that hand holds a weapon already", hand=taken)
    actor["weapons"] = [*actor["weapons"], {"id": item, "hand": taken}]
    return draft.add_event("wielded", actor, f"{actor['name']} wields {rules.described(thing)}", item_id=item)


def remove(draft: Draft, character: str, item: str) -> Event:
    """Plan how a character takes off armor or puts away a weapon."""
    actor, thing = in_hands(draft, character, item)
    if item not in rules.in_use(actor):
        raise OutOfReach(f"{thing['name']} is neither worn nor wielded", item_id=item)
    does = "takes off" if thing["kind"] == "armor" else "puts away"
    actor["armor"] = [worn for worn in actor["armor"] if worn["id"] != item]
    actor["weapons"] = [wielded for wielded in actor["weapons"] if wielded["id"] != item]
    return draft.add_event("removed", actor, f"{actor['name']} {does} {rules.described(thing)}", item_id=item)


def use(draft: Draft, character: str, item: str) -> Event:
    """Plan how a character drinks a potion."""
    actor, thing = in_hands(draft, character, item)
    if thing["kind"] != "potion":
        raise NotMadeForThat(f"{thing['name']} is of no use like that", item_id=item)
    actor["character"] = rules.adjusted(actor["character"], thing.get("heals", 0), thing.get("mana", 0), {})
    _use_up(draft, actor, thing)
    return draft.add_event("used", actor, f"{actor['name']} drinks {thing['name']}", item_id=item)


def _use_up(draft: Draft, actor: Character, thing: Item) -> None:
    """Remove one piece of a carried thing from the world."""
    if thing["qty"] == 1:
        actor["inventory"] = entries_without(actor["inventory"], thing["_id"])
        # guard: a potion can be drunk only once
        draft.delete_item(thing)
        return
    draft.item(thing)["qty"] -= 1
    entry = entry_with(actor["inventory"], thing["_id"])
    if entry is None:
        raise Stale("the potion moved while it was read")
    entry["qty"] -= 1
    entry["weight"] -= thing["weight"]


def adjust(draft: Draft, character: str, health: int, mana: int, intrinsics: Mapping[str, int]) -> Event:
    """Plan how a character's values change."""
    actor = draft.character(character)
    actor["character"] = rules.adjusted(actor["character"], health, mana, intrinsics)
    return draft.add_event("changed", actor, f"{actor['name']} looks different")
