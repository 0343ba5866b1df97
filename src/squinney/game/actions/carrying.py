"""Things change hands: taken, put down, given, split and stacked."""

from __future__ import annotations

from squinney import checks
from squinney.errors import Invalid
from squinney.game import rules
from squinney.game.actions.action import Action, check_qty, check_two, from_hands
from squinney.game.actions.draft import Draft
from squinney.game.actions.transfer import Transfer
from squinney.game.documents import MOST_QTY, Event
from squinney.game.errors import NotMadeForThat, OutOfReach
from squinney.mongo.connect import operation
from squinney.transactions import Key, Stale


class Carrying(Action):
    """Things change hands: taken, put down, given, split and stacked."""

    @operation()
    def pick_up(self, character: str, item: str, qty: int | None = None, *, key: str | Key | None = None) -> Event:
        """Take a thing that lies in the room, or so many of a stack.

        Atomic: the thing, the room, the character and the event, in one `Transactions` run; the thing's holder decides
        who has it.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        check_qty(qty)

        def plan(draft: Draft) -> Event:
            who = draft.character(draft.records.character(character))
            thing = draft.records.item(item)
            here = who["location"]["id"]
            if thing["holder"] != {"kind": "location", "id": here}:
                raise OutOfReach(f"{thing['name']} does not lie here", item_id=item)
            transfer = Transfer(draft, thing, qty)
            transfer.from_room(here)
            transfer.to_character(who)
            return draft.tell("took", who, f"{who['name']} takes {transfer.name}", item_id=item)

        return self._act("pick up", plan, key, {"character": character, "item": item, "qty": qty})

    @operation()
    def drop(self, character: str, item: str, qty: int | None = None, *, key: str | Key | None = None) -> Event:
        """Put down a carried thing, or so many of a stack.

        Atomic: the thing, the room, the character and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        check_qty(qty)

        def plan(draft: Draft) -> Event:
            who, transfer = from_hands(draft, character, item, qty)
            transfer.to_room(who["location"]["id"])
            return draft.tell("dropped", who, f"{who['name']} drops {transfer.name}", item_id=item)

        return self._act("drop", plan, key, {"character": character, "item": item, "qty": qty})

    @operation()
    def give(
        self, character: str, to: str, item: str, qty: int | None = None, *, key: str | Key | None = None
    ) -> Event:
        """Give a carried thing to somebody in the same room.

        Atomic: the thing, both characters and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `TooHeavy`, `NoSpace`, `Busy`,
        `KeyReused`, `StillRunning`, `Unavailable`.
        """
        check_qty(qty)
        check_two(character, to, "to")

        def plan(draft: Draft) -> Event:
            who, transfer = from_hands(draft, character, item, qty)
            other = draft.character(draft.records.character(to))
            rules.require_same_room(who, other)
            transfer.to_character(other)
            text = f"{who['name']} gives {transfer.name} to {other['name']}"
            return draft.tell("gave", who, text, item_id=item, other_id=to)

        return self._act("give", plan, key, {"character": character, "to": to, "item": item, "qty": qty})

    @operation()
    def split(self, character: str, item: str, qty: int, *, key: str | Key | None = None) -> Event:
        """Make two stacks of a carried one; the event names the new one as `other_id`.

        Atomic: both stacks, the character and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NoSpace`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        checks.integer(qty, "qty", least=1, most=MOST_QTY)

        def plan(draft: Draft) -> Event:
            thing = draft.records.item(item)
            if qty >= thing["qty"]:
                raise Invalid(f"there are {thing['qty']} of {thing['name']}", field="qty", limit=thing["qty"] - 1)
            who, transfer = from_hands(draft, character, item, qty)
            transfer.to_character(who, may_join=False)
            made = who["inventory"][-1]["id"]
            return draft.tell("split", who, f"{who['name']} sorts their things", item_id=item, other_id=made)

        return self._act("split", plan, key, {"character": character, "item": item, "qty": qty})

    @operation()
    def stack(self, character: str, item: str, onto: str, *, key: str | Key | None = None) -> Event:
        """Put one carried stack onto another of the same things.

        Atomic: both stacks, the character and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        check_two(item, onto, "onto")

        def plan(draft: Draft) -> Event:
            thing, other = draft.records.item(item), draft.records.item(onto)
            who, transfer = from_hands(draft, character, item, None)
            rules.require_carried(who, other)
            entry = rules.entry_with(who["inventory"], onto)
            if entry is None:
                raise Stale("the stack moved while it was read")
            if not thing.get("stack") or thing["stack"] != other.get("stack"):
                raise NotMadeForThat(f"{thing['name']} and {other['name']} make no stack", item_id=item)
            if thing["qty"] + other["qty"] > MOST_QTY:
                raise NotMadeForThat(f"a stack has at most {MOST_QTY}", item_id=onto, limit=MOST_QTY)
            transfer.onto(entry)
            return draft.tell("stacked", who, f"{who['name']} sorts their things", item_id=item, other_id=onto)

        return self._act("stack", plan, key, {"character": character, "item": item, "onto": onto})
