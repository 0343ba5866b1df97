"""Pick up, drop, give, split and stack things."""

from __future__ import annotations

from squinney.errors import Invalid
from squinney.game import rules
from squinney.game.actions.draft import Draft
from squinney.game.actions.hands import take_from_hands
from squinney.game.actions.item_transfer import ItemTransfer
from squinney.game.documents import MAX_QTY, Event, Item
from squinney.game.entries import entry_with
from squinney.game.errors import NotMadeForThat, OutOfReach
from squinney.transactions import Stale


def pick_up(draft: Draft, character: str, item: str, qty: int | None) -> Event:
    """Plan how a character picks up a thing from the floor."""
    actor = draft.character(character)
    thing = draft.records.item(item)
    here = actor["location"]["id"]
    # guard: a character picks up only things in the same room
    if thing["holder"] != {"kind": "location", "id": here}:
        raise OutOfReach(f"{thing['name']} does not lie here", item_id=item)
    transfer = ItemTransfer(draft, thing, qty)
    transfer.from_room(here)
    transfer.to_character(actor)
    return draft.add_event("took", actor, f"{actor['name']} takes {transfer.name}", item_id=item)


def drop(draft: Draft, character: str, item: str, qty: int | None) -> Event:
    """Plan how a character drops a carried thing."""
    actor, transfer = take_from_hands(draft, character, item, qty)
    transfer.to_room(actor["location"]["id"])
    return draft.add_event("dropped", actor, f"{actor['name']} drops {transfer.name}", item_id=item)


def give(draft: Draft, character: str, to: str, item: str, qty: int | None) -> Event:
    """Plan how a character gives a carried thing to another character."""
    actor, transfer = take_from_hands(draft, character, item, qty)
    other = draft.character(to)
    rules.require_same_room(actor, other)
    transfer.to_character(other)
    text = f"{actor['name']} gives {transfer.name} to {other['name']}"
    return draft.add_event("gave", actor, text, item_id=item, other_id=to)


def split(draft: Draft, character: str, item: str, qty: int) -> Event:
    """Plan how a character splits a carried stack."""
    thing = draft.records.item(item)
    if qty >= thing["qty"]:
        raise Invalid(f"there are {thing['qty']} of {thing['name']}", field="qty", limit=thing["qty"] - 1)
    actor, transfer = take_from_hands(draft, character, item, qty)
    transfer.to_character(actor, may_merge=False)
    new_stack_id = actor["inventory"][-1]["id"]
    return draft.add_event("split", actor, f"{actor['name']} sorts their things", item_id=item, other_id=new_stack_id)


def stack(draft: Draft, character: str, item: str, onto: str) -> Event:
    """Plan how a character merges a carried stack into another."""
    thing, other = draft.records.item(item), draft.records.item(onto)
    actor, transfer = take_from_hands(draft, character, item, None)
    rules.require_carried(actor, other)
    entry = entry_with(actor["inventory"], onto)
    if entry is None:
        raise Stale("the stack moved while it was read")
    _require_stackable(thing, other)
    transfer.merge_into(entry)
    return draft.add_event("stacked", actor, f"{actor['name']} sorts their things", item_id=item, other_id=onto)


def _require_stackable(thing: Item, other: Item) -> None:
    if not thing.get("stack") or thing["stack"] != other.get("stack"):
        raise NotMadeForThat(f"{thing['name']} and {other['name']} make no stack", item_id=thing["_id"])
    if thing["qty"] + other["qty"] > MAX_QTY:
        raise NotMadeForThat(f"a stack has at most {MAX_QTY}", item_id=other["_id"], limit=MAX_QTY)
