"""What is worn, wielded and used; and what that makes of a character."""

from __future__ import annotations

from collections.abc import Mapping

from squinney import checks
from squinney.errors import Invalid
from squinney.game import rules
from squinney.game.actions.action import Action
from squinney.game.actions.draft import Draft
from squinney.game.documents import HANDS, MOST_VITAL, Character, Event, Item
from squinney.game.errors import InUse, NotMadeForThat, OutOfReach
from squinney.game.new_documents import checked_intrinsics
from squinney.mongo.connect import operation
from squinney.transactions import Key, Stale


class Using(Action):
    """What is worn, wielded and used; and what that makes of a character."""

    @operation()
    def wear(self, character: str, item: str, *, key: str | Key | None = None) -> Event:
        """Put on a carried piece of armor: one for each region, and any number for the body.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `InUse`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """

        def plan(draft: Draft) -> Event:
            who, thing = _in_hands(draft, character, item)
            if thing["kind"] != "armor":
                raise NotMadeForThat(f"{thing['name']} is nothing to wear", item_id=item)
            region = thing.get("region", "body")
            taken = [worn for worn in who["armor"] if worn["region"] == region and region != "body"]
            if taken or item in rules.in_use(who):
                raise InUse(f"something is worn on the {region} already", region=region)
            who["armor"] = [*who["armor"], {"id": item, "region": region}]
            return draft.tell("wore", who, f"{who['name']} puts on {rules.described(thing)}", item_id=item)

        return self._act("wear", plan, key, {"character": character, "item": item})

    @operation()
    def wield(self, character: str, item: str, hand: str = "right", *, key: str | Key | None = None) -> Event:
        """Take a carried weapon into a hand, or into both where it needs them.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `InUse`, `Busy`,
        `KeyReused`, `StillRunning`, `Unavailable`.
        """
        if hand not in HANDS:
            raise Invalid(f"hand must be one of {', '.join(HANDS)}", field="hand")

        def plan(draft: Draft) -> Event:
            who, thing = _in_hands(draft, character, item)
            if thing["kind"] != "weapon":
                raise NotMadeForThat(f"{thing['name']} is no weapon", item_id=item)
            taken = "both" if thing.get("hands", 1) == 2 else hand
            if any(taken == "both" or one["hand"] in (taken, "both") or one["id"] == item for one in who["weapons"]):
                raise InUse("that hand holds a weapon already", hand=taken)
            who["weapons"] = [*who["weapons"], {"id": item, "hand": taken}]
            return draft.tell("wielded", who, f"{who['name']} wields {rules.described(thing)}", item_id=item)

        return self._act("wield", plan, key, {"character": character, "item": item, "hand": hand})

    @operation()
    def remove(self, character: str, item: str, *, key: str | Key | None = None) -> Event:
        """Take off what is worn, or put away what is wielded; it is still carried.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """

        def plan(draft: Draft) -> Event:
            who, thing = _in_hands(draft, character, item)
            if item not in rules.in_use(who):
                raise OutOfReach(f"{thing['name']} is neither worn nor wielded", item_id=item)
            does = "takes off" if thing["kind"] == "armor" else "puts away"
            who["armor"] = [worn for worn in who["armor"] if worn["id"] != item]
            who["weapons"] = [wielded for wielded in who["weapons"] if wielded["id"] != item]
            return draft.tell("removed", who, f"{who['name']} {does} {rules.described(thing)}", item_id=item)

        return self._act("remove", plan, key, {"character": character, "item": item})

    @operation()
    def use(self, character: str, item: str, *, key: str | Key | None = None) -> Event:
        """Drink a carried potion, which is then gone.

        Atomic: the character, the potion and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """

        def plan(draft: Draft) -> Event:
            who, thing = _in_hands(draft, character, item)
            if thing["kind"] != "potion":
                raise NotMadeForThat(f"{thing['name']} is of no use like that", item_id=item)
            who["character"] = rules.adjusted(who["character"], thing.get("heals", 0), thing.get("mana", 0), {})
            if thing["qty"] == 1:
                who["inventory"] = rules.without(who["inventory"], item)
                draft.remove(thing)
            else:
                draft.item(thing)["qty"] -= 1
                entry = rules.entry_with(who["inventory"], item)
                if entry is None:
                    raise Stale("the potion moved while it was read")
                entry["qty"] -= 1
                entry["weight"] -= thing["weight"]
            return draft.tell("used", who, f"{who['name']} drinks {thing['name']}", item_id=item)

        return self._act("use", plan, key, {"character": character, "item": item})

    @operation()
    def adjust(
        self,
        character: str,
        *,
        health: int = 0,
        mana: int = 0,
        intrinsics: Mapping[str, int] | None = None,
        key: str | Key | None = None,
    ) -> Event:
        """Add to a character's values, or take from them; each stays within its bounds.

        Atomic: the character and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        for name, value in {"health": health, "mana": mana}.items():
            checks.integer(value, name, least=-MOST_VITAL, most=MOST_VITAL)
        more = checked_intrinsics(intrinsics or {}, least=-MOST_VITAL, most=MOST_VITAL)

        def plan(draft: Draft) -> Event:
            who = draft.character(draft.records.character(character))
            who["character"] = rules.adjusted(who["character"], health, mana, more)
            return draft.tell("changed", who, f"{who['name']} looks different")

        arguments = {"character": character, "health": health, "mana": mana, "intrinsics": more}
        return self._act("adjust", plan, key, arguments)


def _in_hands(draft: Draft, character_id: str, item_id: str) -> tuple[Character, Item]:
    """A character and what they carry; the thing is guarded too, or it could be gone by then."""
    who = draft.character(draft.records.character(character_id))
    thing = draft.records.item(item_id)
    rules.require_carried(who, thing)
    draft.item(thing)
    return who, thing
