"""Pick up, drop, give, split and stack things."""

from __future__ import annotations

from squinney import checks
from squinney.errors import Invalid
from squinney.game import rules
from squinney.game.actions.action import Action, check_different, check_qty, take_from_hands
from squinney.game.actions.draft import Draft
from squinney.game.actions.transfer import Transfer
from squinney.game.documents import MOST_QTY, Event
from squinney.game.errors import NotMadeForThat, OutOfReach
from squinney.mongo.connect import operation
from squinney.transactions import Key, Stale


class Carrying(Action):
    """The actions of `World` that pick up, drop, give, split and stack things."""

    @operation()
    def pick_up(self, character: str, item: str, qty: int | None = None, *, key: str | Key | None = None) -> Event:
        """Pick up a thing from the floor of the room, or `qty` of a stack.

        Atomic: the thing, the room, the character and the event, in one `Transactions` run. The thing's `holder`
        decides who gets it.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        check_qty(qty)

        def fill(draft: Draft) -> Event:
            actor = draft.character(character)
            thing = draft.records.item(item)
            here = actor["location"]["id"]
            if thing["holder"] != {"kind": "location", "id": here}:
                raise OutOfReach(f"{thing['name']} does not lie here", item_id=item)
            transfer = Transfer(draft, thing, qty)
            transfer.from_room(here)
            transfer.to_character(actor)
            return draft.add_event("took", actor, f"{actor['name']} takes {transfer.name}", item_id=item)

        return self._act("pick up", fill, key, {"character": character, "item": item, "qty": qty})

    @operation()
    def drop(self, character: str, item: str, qty: int | None = None, *, key: str | Key | None = None) -> Event:
        """Drop a carried thing, or `qty` of a stack.

        Atomic: the thing, the room, the character and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        check_qty(qty)

        def fill(draft: Draft) -> Event:
            actor, transfer = take_from_hands(draft, character, item, qty)
            transfer.to_room(actor["location"]["id"])
            return draft.add_event("dropped", actor, f"{actor['name']} drops {transfer.name}", item_id=item)

        return self._act("drop", fill, key, {"character": character, "item": item, "qty": qty})

    @operation()
    def give(
        self, character: str, to: str, item: str, qty: int | None = None, *, key: str | Key | None = None
    ) -> Event:
        """Give a carried thing, or `qty` of a stack, to another character in the same room.

        Atomic: the thing, both characters and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `TooHeavy`, `NoSpace`, `Busy`,
        `KeyReused`, `StillRunning`, `Unavailable`.
        """
        check_qty(qty)
        check_different(to, "to", other=character, other_field="character")

        def fill(draft: Draft) -> Event:
            actor, transfer = take_from_hands(draft, character, item, qty)
            other = draft.character(to)
            rules.require_same_room(actor, other)
            transfer.to_character(other)
            text = f"{actor['name']} gives {transfer.name} to {other['name']}"
            return draft.add_event("gave", actor, text, item_id=item, other_id=to)

        return self._act("give", fill, key, {"character": character, "to": to, "item": item, "qty": qty})

    @operation()
    def split(self, character: str, item: str, qty: int, *, key: str | Key | None = None) -> Event:
        """Split `qty` off a carried stack; the event's `other_id` is the new stack.

        Atomic: both stacks, the character and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NoSpace`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        checks.integer(qty, "qty", least=1, most=MOST_QTY)

        def fill(draft: Draft) -> Event:
            thing = draft.records.item(item)
            if qty >= thing["qty"]:
                raise Invalid(f"there are {thing['qty']} of {thing['name']}", field="qty", limit=thing["qty"] - 1)
            actor, transfer = take_from_hands(draft, character, item, qty)
            transfer.to_character(actor, may_merge=False)
            new_stack_id = actor["inventory"][-1]["id"]
            return draft.add_event(
                "split", actor, f"{actor['name']} sorts their things", item_id=item, other_id=new_stack_id
            )

        return self._act("split", fill, key, {"character": character, "item": item, "qty": qty})

    @operation()
    def stack(self, character: str, item: str, onto: str, *, key: str | Key | None = None) -> Event:
        """Merge a carried stack into another carried stack of the same things.

        Atomic: both stacks, the character and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        check_different(onto, "onto", other=item, other_field="item")

        def fill(draft: Draft) -> Event:
            thing, other = draft.records.item(item), draft.records.item(onto)
            actor, transfer = take_from_hands(draft, character, item, None)
            rules.require_carried(actor, other)
            entry = rules.entry_with(actor["inventory"], onto)
            if entry is None:
                raise Stale("the stack moved while it was read")
            if not thing.get("stack") or thing["stack"] != other.get("stack"):
                raise NotMadeForThat(f"{thing['name']} and {other['name']} make no stack", item_id=item)
            if thing["qty"] + other["qty"] > MOST_QTY:
                raise NotMadeForThat(f"a stack has at most {MOST_QTY}", item_id=onto, limit=MOST_QTY)
            transfer.merge_into(entry)
            return draft.add_event("stacked", actor, f"{actor['name']} sorts their things", item_id=item, other_id=onto)

        return self._act("stack", fill, key, {"character": character, "item": item, "onto": onto})
