"""Into containers, and out of them."""

from __future__ import annotations

from squinney.game.actions.action import Action, check_qty, from_hands
from squinney.game.actions.draft import Draft
from squinney.game.actions.transfer import Transfer
from squinney.game.documents import Character, Event, Holder
from squinney.game.errors import OutOfReach
from squinney.mongo.connect import operation
from squinney.transactions import Key


class Packing(Action):
    """Into containers, and out of them."""

    @operation()
    def put_in(
        self,
        character: str,
        container: str,
        item: str,
        qty: int | None = None,
        *,
        key: str | Key | None = None,
    ) -> Event:
        """Put a carried thing into a container that is carried or stands in the room.

        Atomic: the thing, every container around it, who or what holds them, and the event, in one `Transactions` run.
        So no two such changes can put two containers into each other.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `NotMadeForThat`, `IntoItself`,
        `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        check_qty(qty)

        def plan(draft: Draft) -> Event:
            who, transfer = from_hands(draft, character, item, qty)
            chain, outermost = draft.records.in_reach(who, container)
            transfer.to_container(chain, outermost, _carrier(who, outermost))
            text = f"{who['name']} puts {transfer.name} into {chain[0]['name']}"
            return draft.tell("put in", who, text, item_id=item, other_id=container)

        arguments = {"character": character, "container": container, "item": item, "qty": qty}
        return self._act("put in", plan, key, arguments)

    @operation()
    def take_out(
        self,
        character: str,
        container: str,
        item: str,
        qty: int | None = None,
        *,
        key: str | Key | None = None,
    ) -> Event:
        """Take a thing out of a container that is carried or stands in the room.

        Atomic: the thing, every container around it, who or what holds them, the character and the event, in one
        `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        check_qty(qty)

        def plan(draft: Draft) -> Event:
            who = draft.character(draft.records.character(character))
            thing = draft.records.item(item)
            if thing["holder"] != {"kind": "item", "id": container}:
                raise OutOfReach(f"{thing['name']} is not in there", item_id=item)
            chain, outermost = draft.records.in_reach(who, container)
            transfer = Transfer(draft, thing, qty)
            transfer.from_container(chain, outermost, _carrier(who, outermost))
            transfer.to_character(who)
            text = f"{who['name']} takes {transfer.name} out of {chain[0]['name']}"
            return draft.tell("took out", who, text, item_id=item, other_id=container)

        arguments = {"character": character, "container": container, "item": item, "qty": qty}
        return self._act("take out", plan, key, arguments)


def _carrier(who: Character, outermost: Holder) -> Character | None:
    return who if outermost["kind"] == "character" else None
