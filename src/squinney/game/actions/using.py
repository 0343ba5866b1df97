"""Wear armor, wield weapons, drink potions, and adjust a character's values."""

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
    """The actions of `World` that wear, wield, remove and use things, and adjust a character's values."""

    @operation()
    def wear(self, character: str, item: str, *, key: str | Key | None = None) -> Event:
        """Put on a carried piece of armor: one piece per region, but any number on the body.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `InUse`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """

        def fill(draft: Draft) -> Event:
            actor, thing = _in_hands(draft, character, item)
            if thing["kind"] != "armor":
                raise NotMadeForThat(f"{thing['name']} is nothing to wear", item_id=item)
            region = thing.get("region", "body")
            taken = [worn for worn in actor["armor"] if worn["region"] == region and region != "body"]
            if taken or item in rules.in_use(actor):
                raise InUse(f"something is worn on the {region} already", region=region)
            actor["armor"] = [*actor["armor"], {"id": item, "region": region}]
            return draft.add_event("wore", actor, f"{actor['name']} puts on {rules.described(thing)}", item_id=item)

        return self._act("wear", fill, key, {"character": character, "item": item})

    @operation()
    def wield(self, character: str, item: str, hand: str = "right", *, key: str | Key | None = None) -> Event:
        """Take a carried weapon into a hand, or into both hands if the weapon needs two.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `InUse`, `Busy`,
        `KeyReused`, `StillRunning`, `Unavailable`.
        """
        if hand not in HANDS:
            raise Invalid(f"hand must be one of {', '.join(HANDS)}", field="hand")

        def fill(draft: Draft) -> Event:
            actor, thing = _in_hands(draft, character, item)
            if thing["kind"] != "weapon":
                raise NotMadeForThat(f"{thing['name']} is no weapon", item_id=item)
            taken = "both" if thing.get("hands", 1) == 2 else hand
            if any(taken == "both" or one["hand"] in (taken, "both") or one["id"] == item for one in actor["weapons"]):
                raise InUse("that hand holds a weapon already", hand=taken)
            actor["weapons"] = [*actor["weapons"], {"id": item, "hand": taken}]
            return draft.add_event("wielded", actor, f"{actor['name']} wields {rules.described(thing)}", item_id=item)

        return self._act("wield", fill, key, {"character": character, "item": item, "hand": hand})

    @operation()
    def remove(self, character: str, item: str, *, key: str | Key | None = None) -> Event:
        """Take off a worn thing or put away a wielded one; the character still carries it.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """

        def fill(draft: Draft) -> Event:
            actor, thing = _in_hands(draft, character, item)
            if item not in rules.in_use(actor):
                raise OutOfReach(f"{thing['name']} is neither worn nor wielded", item_id=item)
            does = "takes off" if thing["kind"] == "armor" else "puts away"
            actor["armor"] = [worn for worn in actor["armor"] if worn["id"] != item]
            actor["weapons"] = [wielded for wielded in actor["weapons"] if wielded["id"] != item]
            return draft.add_event("removed", actor, f"{actor['name']} {does} {rules.described(thing)}", item_id=item)

        return self._act("remove", fill, key, {"character": character, "item": item})

    @operation()
    def use(self, character: str, item: str, *, key: str | Key | None = None) -> Event:
        """Drink one carried potion, which is used up.

        Atomic: the character, the potion and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """

        def fill(draft: Draft) -> Event:
            actor, thing = _in_hands(draft, character, item)
            if thing["kind"] != "potion":
                raise NotMadeForThat(f"{thing['name']} is of no use like that", item_id=item)
            actor["character"] = rules.adjusted(actor["character"], thing.get("heals", 0), thing.get("mana", 0), {})
            if thing["qty"] == 1:
                actor["inventory"] = rules.without(actor["inventory"], item)
                draft.delete_item(thing)
            else:
                draft.item(thing)["qty"] -= 1
                entry = rules.entry_with(actor["inventory"], item)
                if entry is None:
                    raise Stale("the potion moved while it was read")
                entry["qty"] -= 1
                entry["weight"] -= thing["weight"]
            return draft.add_event("used", actor, f"{actor['name']} drinks {thing['name']}", item_id=item)

        return self._act("use", fill, key, {"character": character, "item": item})

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
        """Add amounts, which may be negative, to a character's values; each value stays within its bounds.

        Atomic: the character and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        for name, value in {"health": health, "mana": mana}.items():
            checks.integer(value, name, least=-MOST_VITAL, most=MOST_VITAL)
        more = checked_intrinsics(intrinsics or {}, least=-MOST_VITAL, most=MOST_VITAL)

        def fill(draft: Draft) -> Event:
            actor = draft.character(character)
            actor["character"] = rules.adjusted(actor["character"], health, mana, more)
            return draft.add_event("changed", actor, f"{actor['name']} looks different")

        arguments = {"character": character, "health": health, "mana": mana, "intrinsics": more}
        return self._act("adjust", fill, key, arguments)


def _in_hands(draft: Draft, character_id: str, item_id: str) -> tuple[Character, Item]:
    """Return a character and a carried thing. The thing is guarded too, or another action could take it meanwhile."""
    actor = draft.character(character_id)
    thing = draft.records.item(item_id)
    rules.require_carried(actor, thing)
    draft.item(thing)
    return actor, thing
