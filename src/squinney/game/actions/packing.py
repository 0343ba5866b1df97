"""Put things into containers, and take them out."""

from __future__ import annotations

from squinney.game.actions.draft import Draft
from squinney.game.actions.hands import take_from_hands
from squinney.game.actions.item_transfer import ItemTransfer
from squinney.game.documents import Event, Item
from squinney.game.errors import NotMadeForThat, OutOfReach


def put_in(draft: Draft, character: str, container: str, item: str, qty: int | None) -> Event:
    """Plan how a character puts a carried thing into a container."""
    actor, transfer = take_from_hands(draft, character, item, qty)
    chain, outermost = draft.records.container_in_reach(actor, container)
    _require_accepted(chain[0], transfer.thing_name)
    transfer.to_container(chain, outermost)
    text = f"{actor['name']} puts {transfer.name} into {chain[0]['name']}"
    if chain[0].get("accepts") and draft.item(chain[0])["count"] == len(chain[0]["accepts"]):
        text = f"{text}. {chain[0]['completed']}"
    return draft.add_event("put in", actor, text, item_id=item, other_id=container)


def _require_accepted(container: Item, name: str) -> None:
    # guard: a container that waits for certain things accepts no others
    if (accepts := container.get("accepts")) and name not in accepts:
        raise NotMadeForThat(f"{name} does not belong into {container['name']}", item_id=container["_id"])


def take_out(draft: Draft, character: str, container: str, item: str, qty: int | None) -> Event:
    """Plan how a character takes a thing out of a container."""
    actor = draft.character(character)
    thing = draft.records.item(item)
    if thing["holder"] != {"kind": "item", "id": container}:
        raise OutOfReach(f"{thing['name']} is not in there", item_id=item)
    chain, outermost = draft.records.container_in_reach(actor, container)
    transfer = ItemTransfer(draft, thing, qty)
    transfer.from_container(chain, outermost)
    transfer.to_character(actor)
    text = f"{actor['name']} takes {transfer.name} out of {chain[0]['name']}"
    return draft.add_event("took out", actor, text, item_id=item, other_id=container)
