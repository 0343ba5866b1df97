"""The things in a character's hands: carried directly, not in a container."""

from __future__ import annotations

from squinney.game import rules
from squinney.game.actions.draft import Draft
from squinney.game.actions.item_transfer import ItemTransfer
from squinney.game.documents import Character, Item


def take_from_hands(draft: Draft, character: str, item: str, qty: int | None) -> tuple[Character, ItemTransfer]:
    """Return a character, and a transfer that takes a carried thing from the character's hands."""
    actor = draft.character(character)
    thing = draft.records.item(item)
    rules.require_carried(actor, thing)
    rules.require_not_in_use(actor, thing)
    transfer = ItemTransfer(draft, thing, qty)
    transfer.from_character(actor)
    return actor, transfer


def in_hands(draft: Draft, character: str, item: str) -> tuple[Character, Item]:
    """Return a character and a carried thing. The thing is guarded too, or another action could take it meanwhile."""
    actor = draft.character(character)
    thing = draft.records.item(item)
    rules.require_carried(actor, thing)
    draft.item(thing)
    return actor, thing
