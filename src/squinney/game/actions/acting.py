"""What characters do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from squinney import checks
from squinney.clock import Clock
from squinney.errors import Invalid
from squinney.game import rules
from squinney.game.actions.draft import Draft
from squinney.game.actions.moving import Moving
from squinney.game.documents import (
    CHARACTERS,
    HANDS,
    MOST_LISTED,
    MOST_QTY,
    MOST_SEEN,
    MOST_VITAL,
    Character,
    Event,
    Holder,
    Item,
)
from squinney.game.errors import (
    InUse,
    NoExit,
    NotEnoughGold,
    NotForSale,
    NotMadeForThat,
    OutOfReach,
    UnknownLocation,
)
from squinney.game.records import Records
from squinney.mongo.connect import operation
from squinney.transactions import Key, Plan, Stale, Step, Transactions

LONGEST_WORDS = 500
INTRINSICS = ("strength", "dexterity", "intelligence", "charisma")


class Acting:
    """The actions of `World`. Each returns the event that those in the room are told.

    Each takes a `key`: an action sent twice with one key happens once.
    """

    _records: Records
    _transactions: Transactions
    _clock: Clock

    def _act(
        self, kind: str, plan: Callable[[Draft], Event], key: str | Key | None, arguments: Mapping[str, Any]
    ) -> Event:
        def build() -> Plan:
            draft = Draft(self._clock())
            event = plan(draft)
            return Plan(draft.steps(), result=event)

        outcome = self._transactions.run(f"game {kind}", build, key=key, arguments=arguments)
        return cast(Event, outcome.result)

    @operation()
    def move(self, character: str, direction: str, *, key: str | Key | None = None) -> Event:
        """Go through an exit.

        Atomic: the character, the old room, the new room and both events, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `NoExit`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.field_name(direction, "direction", most=20)
        arguments = {"character": character, "direction": direction}
        return self._act("move", lambda draft: self._moved(draft, character, direction), key, arguments)

    def _moved(self, draft: Draft, character_id: str, direction: str) -> Event:
        who = draft.character(self._records.character(character_id))
        here = self._records.room(who["location"]["id"])
        target = here["exits"].get(direction)
        if target is None:
            raise NoExit(f"no way leads {rules.way(direction)} from here", direction=direction)
        try:
            there = self._records.room(target)
        except UnknownLocation:
            raise NoExit(f"the way {rules.way(direction)} leads nowhere", direction=direction) from None
        draft.room(here["_id"]).guard = {f"exits.{direction}": target}
        if here["_id"] != target:
            person = {"id": who["_id"], "name": who["name"], "kind": who["kind"]}
            draft.room(here["_id"]).add("$pull", "players", {"id": who["_id"]})
            draft.room(here["_id"]).add("$inc", "player_count", -1)
            draft.room(target).add("$push", "players", {"$each": [person], "$slice": MOST_LISTED})
            draft.room(target).add("$inc", "player_count", 1)
        draft.set_own(who, set={"location": rules.copy_of(there)})
        if target not in who.get("seen", []):
            draft.set_own(who, push={"seen": {"$each": [target], "$slice": -MOST_SEEN}})
        draft.tell("left", who, f"{who['name']} leaves {rules.way(direction)}")
        return draft.tell("arrived", who, f"{who['name']} arrives", location_id=target)

    @operation()
    def pick_up(self, character: str, item: str, qty: int | None = None, *, key: str | Key | None = None) -> Event:
        """Take a thing that lies in the room, or so many of a stack.

        Atomic: the thing, the room, the character and the event, in one `Transactions` run; the thing's holder decides
        who has it.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        _check_qty(qty)

        def plan(draft: Draft) -> Event:
            who = draft.character(self._records.character(character))
            thing = self._records.item(item)
            here = who["location"]["id"]
            if thing["holder"] != {"kind": "location", "id": here}:
                raise OutOfReach(f"{thing['name']} does not lie here", item_id=item)
            moving = Moving(self._records, draft, thing, qty)
            moving.from_room(here)
            moving.to_character(who)
            return draft.tell("took", who, f"{who['name']} takes {moving.name}", item_id=item)

        return self._act("pick up", plan, key, {"character": character, "item": item, "qty": qty})

    @operation()
    def drop(self, character: str, item: str, qty: int | None = None, *, key: str | Key | None = None) -> Event:
        """Put down a carried thing, or so many of a stack.

        Atomic: the thing, the room, the character and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """
        _check_qty(qty)

        def plan(draft: Draft) -> Event:
            who, moving = self._from_hands(draft, character, item, qty)
            moving.to_room(who["location"]["id"])
            return draft.tell("dropped", who, f"{who['name']} drops {moving.name}", item_id=item)

        return self._act("drop", plan, key, {"character": character, "item": item, "qty": qty})

    def _from_hands(self, draft: Draft, character_id: str, item_id: str, qty: int | None) -> tuple[Character, Moving]:
        who = draft.character(self._records.character(character_id))
        thing = self._records.item(item_id)
        rules.require_carried(who, thing)
        rules.require_not_in_use(who, thing)
        moving = Moving(self._records, draft, thing, qty)
        moving.from_character(who)
        return who, moving

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
        _check_qty(qty)

        def plan(draft: Draft) -> Event:
            who, moving = self._from_hands(draft, character, item, qty)
            chain, outermost = self._reach(who, container)
            moving.to_container(chain, outermost, _carrier(who, outermost))
            text = f"{who['name']} puts {moving.name} into {chain[0]['name']}"
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
        _check_qty(qty)

        def plan(draft: Draft) -> Event:
            who = draft.character(self._records.character(character))
            thing = self._records.item(item)
            if thing["holder"] != {"kind": "item", "id": container}:
                raise OutOfReach(f"{thing['name']} is not in there", item_id=item)
            chain, outermost = self._reach(who, container)
            moving = Moving(self._records, draft, thing, qty)
            moving.from_container(chain, outermost, _carrier(who, outermost))
            moving.to_character(who)
            text = f"{who['name']} takes {moving.name} out of {chain[0]['name']}"
            return draft.tell("took out", who, text, item_id=item, other_id=container)

        arguments = {"character": character, "container": container, "item": item, "qty": qty}
        return self._act("take out", plan, key, arguments)

    def _reach(self, who: Character, container_id: str) -> tuple[list[Item], Holder]:
        """The container with those around it, and who or what holds them: the character, or the room they are in."""
        container = self._records.item(container_id)
        around, outermost = self._records.around(container)
        mine = {"kind": "character", "id": who["_id"]}
        if outermost not in (mine, {"kind": "location", "id": who["location"]["id"]}):
            raise OutOfReach(f"{container['name']} is not in reach", item_id=container_id)
        return [container, *around], outermost

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
        _check_qty(qty)
        _check_two(character, to, "to")

        def plan(draft: Draft) -> Event:
            who, moving = self._from_hands(draft, character, item, qty)
            other = draft.character(self._records.character(to))
            rules.require_same_room(who, other)
            moving.to_character(other)
            text = f"{who['name']} gives {moving.name} to {other['name']}"
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
            thing = self._records.item(item)
            if qty >= thing["qty"]:
                raise Invalid(f"there are {thing['qty']} of {thing['name']}", field="qty", limit=thing["qty"] - 1)
            who, moving = self._from_hands(draft, character, item, qty)
            moving.to_character(who, may_join=False)
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
        _check_two(item, onto, "onto")

        def plan(draft: Draft) -> Event:
            thing, other = self._records.item(item), self._records.item(onto)
            who, moving = self._from_hands(draft, character, item, None)
            rules.require_carried(who, other)
            entry = rules.entry_with(who["inventory"], onto)
            if entry is None:
                raise Stale("the stack moved while it was read")
            if not thing.get("stack") or thing["stack"] != other.get("stack"):
                raise NotMadeForThat(f"{thing['name']} and {other['name']} make no stack", item_id=item)
            if thing["qty"] + other["qty"] > MOST_QTY:
                raise NotMadeForThat(f"a stack has at most {MOST_QTY}", item_id=onto, limit=MOST_QTY)
            moving.onto(entry)
            return draft.tell("stacked", who, f"{who['name']} sorts their things", item_id=item, other_id=onto)

        return self._act("stack", plan, key, {"character": character, "item": item, "onto": onto})

    # ---- what is worn, wielded and used ----

    @operation()
    def wear(self, character: str, item: str, *, key: str | Key | None = None) -> Event:
        """Put on a carried piece of armor: one for each region, and any number for the body.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `InUse`, `Busy`, `KeyReused`,
        `StillRunning`, `Unavailable`.
        """

        def plan(draft: Draft) -> Event:
            who, thing = self._in_hands(draft, character, item)
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
            who, thing = self._in_hands(draft, character, item)
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
            who, thing = self._in_hands(draft, character, item)
            if item not in rules.in_use(who):
                raise OutOfReach(f"{thing['name']} is neither worn nor wielded", item_id=item)
            who["armor"] = [worn for worn in who["armor"] if worn["id"] != item]
            who["weapons"] = [wielded for wielded in who["weapons"] if wielded["id"] != item]
            return draft.tell("removed", who, f"{who['name']} puts away {rules.described(thing)}", item_id=item)

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
            who, thing = self._in_hands(draft, character, item)
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

    def _in_hands(self, draft: Draft, character_id: str, item_id: str) -> tuple[Character, Item]:
        """A character and what they carry; the thing is guarded too, or it could be gone by then."""
        who = draft.character(self._records.character(character_id))
        thing = self._records.item(item_id)
        rules.require_carried(who, thing)
        draft.item(thing)
        return who, thing

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
        more = dict(intrinsics or {})
        for name, value in {"health": health, "mana": mana, **more}.items():
            checks.integer(value, name, least=-MOST_VITAL, most=MOST_VITAL)
        if unknown := set(more) - set(INTRINSICS):
            raise Invalid(f"intrinsics are {', '.join(INTRINSICS)}, not {min(unknown)}", field="intrinsics")

        def plan(draft: Draft) -> Event:
            who = draft.character(self._records.character(character))
            who["character"] = rules.adjusted(who["character"], health, mana, more)
            return draft.tell("changed", who, f"{who['name']} looks different")

        arguments = {"character": character, "health": health, "mana": mana, "intrinsics": more}
        return self._act("adjust", plan, key, arguments)

    # ---- trade and talk ----

    @operation()
    def buy(self, character: str, shopkeeper: str, item: str, qty: int = 1, *, key: str | Key | None = None) -> Event:
        """Buy so many of a thing from a shopkeeper in the same room.

        Atomic: the thing, both purses and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotForSale`, `NotEnoughGold`, `TooHeavy`,
        `NoSpace`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.integer(qty, "qty", least=1, most=MOST_QTY)
        _check_two(character, shopkeeper, "shopkeeper")

        def plan(draft: Draft) -> Event:
            who, keeper = self._traders(draft, character, shopkeeper)
            thing = self._records.item(item)
            if thing["holder"] != {"kind": "character", "id": shopkeeper} or item in rules.in_use(keeper):
                raise NotForSale(f"{keeper['name']} does not sell {thing['name']}", item_id=item)
            moving = Moving(self._records, draft, thing, qty)
            price = rules.price_of(thing, qty, keeper["shop"]["sells_at"], rounded_up=True)
            _pay(who, keeper, price)
            moving.from_character(keeper)
            moving.to_character(who)
            text = f"{who['name']} buys {moving.name} for {price} gold"
            return draft.tell("bought", who, text, item_id=item, other_id=shopkeeper)

        arguments = {"character": character, "shopkeeper": shopkeeper, "item": item, "qty": qty}
        return self._act("buy", plan, key, arguments)

    @operation()
    def sell(self, character: str, shopkeeper: str, item: str, qty: int = 1, *, key: str | Key | None = None) -> Event:
        """Sell so many of a carried thing to a shopkeeper in the same room.

        Atomic: the thing, both purses and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `NotForSale`, `NotEnoughGold`,
        `NoSpace`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.integer(qty, "qty", least=1, most=MOST_QTY)
        _check_two(character, shopkeeper, "shopkeeper")

        def plan(draft: Draft) -> Event:
            _, keeper = self._traders(draft, character, shopkeeper)
            thing = self._records.item(item)
            who, moving = self._from_hands(draft, character, item, qty)
            price = rules.price_of(thing, qty, keeper["shop"]["buys_at"], rounded_up=False)
            _pay(keeper, who, price)
            moving.to_character(keeper)
            text = f"{who['name']} sells {moving.name} for {price} gold"
            return draft.tell("sold", who, text, item_id=item, other_id=shopkeeper)

        arguments = {"character": character, "shopkeeper": shopkeeper, "item": item, "qty": qty}
        return self._act("sell", plan, key, arguments)

    def _traders(self, draft: Draft, character_id: str, shopkeeper_id: str) -> tuple[Character, Character]:
        who = draft.character(self._records.character(character_id))
        keeper = draft.character(self._records.character(shopkeeper_id))
        rules.require_same_room(who, keeper)
        if keeper["kind"] != "shopkeeper":
            raise NotForSale(f"{keeper['name']} keeps no shop", character_id=shopkeeper_id)
        return who, keeper

    @operation()
    def say(self, character: str, text: str, *, key: str | Key | None = None) -> Event:
        """Say something to those in the room.

        Atomic: the event, with a guard on where the speaker is, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.text(text, "text", least=1, most=LONGEST_WORDS)

        def plan(draft: Draft) -> Event:
            who = self._records.character(character)
            here = {"location.id": who["location"]["id"]}
            draft.add(Step(CHARACTERS, character, guard=here, refused=Stale))
            return draft.tell("said", who, text)

        return self._act("say", plan, key, {"character": character, "text": text})


def _check_qty(qty: int | None) -> None:
    if qty is not None:
        checks.integer(qty, "qty", least=1, most=MOST_QTY)


def _check_two(one: str, other: str, field: str) -> None:
    if one == other:
        raise Invalid(f"{field} must be another one", field=field)


def _carrier(who: Character, outermost: Holder) -> Character | None:
    return who if outermost["kind"] == "character" else None


def _pay(payer: Character, payee: Character, price: int) -> None:
    if payer["gold"] < price:
        raise NotEnoughGold(f"{payer['name']} has {payer['gold']} gold, not {price}", price=price, gold=payer["gold"])
    payer["gold"] -= price
    payee["gold"] += price
