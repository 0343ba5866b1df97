"""Put things into containers, and take them out."""

from __future__ import annotations

from squinney.game.actions.action import Action, check_qty, take_from_hands
from squinney.game.actions.draft import Draft
from squinney.game.actions.transfer import Transfer
from squinney.game.documents import Event
from squinney.game.errors import OutOfReach
from squinney.mongo.connect import operation
from squinney.transactions import Key


class Packing(Action):
    """The actions of `World` that put things into containers and take them out."""

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
        """Put a carried thing, or `qty` of a stack, into a container that is carried or is in the room.

        Atomic: the thing, every container around it, the holder of the outermost container, the character and the
        event, in one `Transactions` run. So two concurrent calls cannot put two containers into each other.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `NotMadeForThat`, `IntoItself`,
        `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        check_qty(qty)

        def fill(draft: Draft) -> Event:
            actor, transfer = take_from_hands(draft, character, item, qty)
            chain, outermost = draft.records.container_in_reach(actor, container)
            transfer.to_container(chain, outermost)
            text = f"{actor['name']} puts {transfer.name} into {chain[0]['name']}"
            return draft.add_event("put in", actor, text, item_id=item, other_id=container)

        arguments = {"character": character, "container": container, "item": item, "qty": qty}
        return self._act("put in", fill, key, arguments)

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
        """Take a thing, or `qty` of a stack, out of a container that is carried or is in the room.

        Atomic: the thing, every container around it, the holder of the outermost container, the character and the
        event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        check_qty(qty)

        def fill(draft: Draft) -> Event:
            actor = draft.character(character)
            thing = draft.records.item(item)
            if thing["holder"] != {"kind": "item", "id": container}:
                raise OutOfReach(f"{thing['name']} is not in there", item_id=item)
            chain, outermost = draft.records.container_in_reach(actor, container)
            transfer = Transfer(draft, thing, qty)
            transfer.from_container(chain, outermost)
            transfer.to_character(actor)
            text = f"{actor['name']} takes {transfer.name} out of {chain[0]['name']}"
            return draft.add_event("took out", actor, text, item_id=item, other_id=container)

        arguments = {"character": character, "container": container, "item": item, "qty": qty}
        return self._act("take out", fill, key, arguments)
