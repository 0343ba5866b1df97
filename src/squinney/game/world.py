"""`World`: the class with every operation on rooms, things and characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid
from squinney.game.actions import carrying, packing, trading, using, walking
from squinney.game.actions.runner import ActionRunner
from squinney.game.creating.new_documents import (
    character_document,
    checked_exits,
    checked_intrinsics,
    item_document,
    location_document,
)
from squinney.game.creating.plans import plan_character, plan_item
from squinney.game.documents import HANDS, LOCATIONS, MAX_QTY, MAX_VITAL, Character, Event, Item, Location
from squinney.game.errors import UnknownCharacter, UnknownLocation
from squinney.game.loading.blueprint import Report
from squinney.game.loading.files import read_world
from squinney.game.loading.insert_rooms import insert_rooms
from squinney.game.readable_world import ReadableWorld
from squinney.game.records import CACHE_SIZE, DocumentCache
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db
from squinney.transactions import Key, Plan, Step, Transactions

MAX_WORDS_LENGTH = 500


class World(ReadableWorld):
    """A world in which each thing is in exactly one place, and gold is neither created nor lost.

    Several instances, in several processes, may work on the same world. Readers see an action completely or not at all.
    Each action of a character takes a `key`, with which it happens once however often it is sent, and returns the event
    that the room receives.
    """

    def __init__(
        self,
        db: Db,
        *,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
        cache_size: int = CACHE_SIZE,
        acts_per_minute: int = 0,
    ) -> None:
        """`cache_size` is the number of documents that are cached, so that actions need no read; 0 disables the cache.

        `acts_per_minute` limits each player; saying something counts as five acts. 0 means no limit.
        """
        super().__init__(db, DocumentCache(checks.integer(cache_size, "cache_size", minimum=0)))
        self._transactions = transactions or Transactions(db)
        self._clock = clock
        self._actions = ActionRunner(
            self._transactions,
            self._records,
            self._cache,
            clock=clock,
            acts_per_minute=checks.integer(acts_per_minute, "acts_per_minute", minimum=0),
        )

    @operation(reads_only=True)
    def character_of(self, character: str, owner: str | None) -> Character:
        """Return a character of this owner; None may have every character.

        Raises: `UnknownCharacter`, also if the character is somebody else's; `Invalid`.
        """
        stored = self.character(character)
        if owner is not None and stored.get("owner") != owner:
            raise UnknownCharacter(f"there is no character {character}", character_id=character)
        return stored

    # ---- walk and talk ----

    @operation()
    def move(self, character: str, direction: str, *, key: str | Key | None = None, also: Sequence[Step] = ()) -> Event:
        """Move a character through an exit of the room.

        Atomic: the character, the old room, the new room and both events, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `NoExit`, `Busy`, `KeyReused`, `Unavailable`.
        """
        checks.field_name(direction, "direction", max_length=20)
        return self._actions.run("move", walking.move, key, also, character=character, direction=direction)

    @operation()
    def say(self, character: str, text: str, *, key: str | Key | None = None, also: Sequence[Step] = ()) -> Event:
        """Say something to everybody in the room.

        Atomic: the event and the speaker, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `Busy`, `KeyReused`, `Unavailable`.
        """
        checks.text(text, "text", min_length=1, max_length=MAX_WORDS_LENGTH)
        return self._actions.run("say", walking.say, key, also, character=character, text=text)

    # ---- carry things ----

    @operation()
    def pick_up(
        self,
        character: str,
        item: str,
        qty: int | None = None,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Event:
        """Pick up a thing from the floor of the room, or `qty` of a stack.

        Atomic: the thing, the room, the character and the event, in one `Transactions` run. The thing's `holder`
        decides who gets it.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`,
        `Unavailable`.
        """
        _check_qty(qty)
        return self._actions.run("pick up", carrying.pick_up, key, also, character=character, item=item, qty=qty)

    @operation()
    def drop(
        self,
        character: str,
        item: str,
        qty: int | None = None,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Event:
        """Drop a carried thing, or `qty` of a stack.

        Atomic: the thing, the room, the character and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `Busy`, `KeyReused`,
        `Unavailable`.
        """
        _check_qty(qty)
        return self._actions.run("drop", carrying.drop, key, also, character=character, item=item, qty=qty)

    @operation()
    def give(
        self,
        character: str,
        to: str,
        item: str,
        qty: int | None = None,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Event:
        """Give a carried thing, or `qty` of a stack, to another character in the same room.

        Atomic: the thing, both characters and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `TooHeavy`, `NoSpace`, `Busy`,
        `KeyReused`, `Unavailable`.
        """
        _check_qty(qty)
        _check_different(to, "to", other=character, other_field="character")
        return self._actions.run("give", carrying.give, key, also, character=character, to=to, item=item, qty=qty)

    @operation()
    def split(
        self, character: str, item: str, qty: int, *, key: str | Key | None = None, also: Sequence[Step] = ()
    ) -> Event:
        """Split `qty` off a carried stack; the event's `other_id` is the new stack.

        Atomic: both stacks, the character and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NoSpace`, `Busy`, `KeyReused`,
        `Unavailable`.
        """
        checks.integer(qty, "qty", minimum=1, maximum=MAX_QTY)
        return self._actions.run("split", carrying.split, key, also, character=character, item=item, qty=qty)

    @operation()
    def stack(
        self, character: str, item: str, onto: str, *, key: str | Key | None = None, also: Sequence[Step] = ()
    ) -> Event:
        """Merge a carried stack into another carried stack of the same things.

        Atomic: both stacks, the character and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `Busy`, `KeyReused`,
        `Unavailable`.
        """
        _check_different(onto, "onto", other=item, other_field="item")
        return self._actions.run("stack", carrying.stack, key, also, character=character, item=item, onto=onto)

    # ---- containers ----

    @operation()
    def put_in(
        self,
        character: str,
        container: str,
        item: str,
        qty: int | None = None,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Event:
        """Put a carried thing, or `qty` of a stack, into a container that is carried or is in the room.

        Atomic: the thing, every container around it, the holder of the outermost container, the character and the
        event, in one `Transactions` run. So two concurrent calls cannot put two containers into each other.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `NotMadeForThat`, `IntoItself`,
        `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`, `Unavailable`.
        """
        _check_qty(qty)
        return self._actions.run(
            "put in", packing.put_in, key, also, character=character, container=container, item=item, qty=qty
        )

    @operation()
    def take_out(
        self,
        character: str,
        container: str,
        item: str,
        qty: int | None = None,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Event:
        """Take a thing, or `qty` of a stack, out of a container that is carried or is in the room.

        Atomic: the thing, every container around it, the holder of the outermost container, the character and the
        event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `TooHeavy`, `NoSpace`, `Busy`, `KeyReused`,
        `Unavailable`.
        """
        _check_qty(qty)
        return self._actions.run(
            "take out", packing.take_out, key, also, character=character, container=container, item=item, qty=qty
        )

    # ---- wear, wield and use ----

    @operation()
    def wear(self, character: str, item: str, *, key: str | Key | None = None, also: Sequence[Step] = ()) -> Event:
        """Put on a carried piece of armor: one piece per region, but any number on the body.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `InUse`, `Busy`, `KeyReused`,
        `Unavailable`.
        """
        return self._actions.run("wear", using.wear, key, also, character=character, item=item)

    @operation()
    def wield(
        self, character: str, item: str, hand: str = "right", *, key: str | Key | None = None, also: Sequence[Step] = ()
    ) -> Event:
        """Take a carried weapon into a hand, or into both hands if the weapon needs two.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `InUse`, `Busy`,
        `KeyReused`, `Unavailable`.
        """
        if hand not in HANDS:
            raise Invalid(f"hand must be one of {', '.join(HANDS)}", field="hand")
        return self._actions.run("wield", using.wield, key, also, character=character, item=item, hand=hand)

    @operation()
    def remove(self, character: str, item: str, *, key: str | Key | None = None, also: Sequence[Step] = ()) -> Event:
        """Take off a worn thing or put away a wielded one; the character still carries it.

        Atomic: the character, the guarded thing and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `Busy`, `KeyReused`, `Unavailable`.
        """
        return self._actions.run("remove", using.remove, key, also, character=character, item=item)

    @operation()
    def use(self, character: str, item: str, *, key: str | Key | None = None, also: Sequence[Step] = ()) -> Event:
        """Drink one carried potion, which is used up.

        Atomic: the character, the potion and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotMadeForThat`, `Busy`, `KeyReused`, `Unavailable`.
        """
        return self._actions.run("use", using.use, key, also, character=character, item=item)

    @operation()
    def adjust(
        self,
        character: str,
        *,
        health: int = 0,
        mana: int = 0,
        intrinsics: Mapping[str, int] | None = None,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Event:
        """Add amounts, which may be negative, to a character's values; each value stays within its bounds.

        Atomic: the character and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `Busy`, `KeyReused`, `Unavailable`.
        """
        for name, value in {"health": health, "mana": mana}.items():
            checks.integer(value, name, minimum=-MAX_VITAL, maximum=MAX_VITAL)
        more = checked_intrinsics(intrinsics or {}, minimum=-MAX_VITAL, maximum=MAX_VITAL)
        return self._actions.run(
            "adjust", using.adjust, key, also, character=character, health=health, mana=mana, intrinsics=more
        )

    # ---- trade ----

    @operation()
    def buy(
        self,
        character: str,
        shopkeeper: str,
        item: str,
        qty: int = 1,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Event:
        """Buy `qty` of a thing from a shopkeeper in the same room.

        Atomic: the thing, both characters' gold and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotForSale`, `NotEnoughGold`, `TooHeavy`,
        `NoSpace`, `Busy`, `KeyReused`, `Unavailable`.
        """
        checks.integer(qty, "qty", minimum=1, maximum=MAX_QTY)
        _check_different(shopkeeper, "shopkeeper", other=character, other_field="character")
        return self._actions.run(
            "buy", trading.buy, key, also, character=character, shopkeeper=shopkeeper, item=item, qty=qty
        )

    @operation()
    def sell(
        self,
        character: str,
        shopkeeper: str,
        item: str,
        qty: int = 1,
        *,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Event:
        """Sell `qty` of a carried thing to a shopkeeper in the same room.

        Atomic: the thing, both characters' gold and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `NotForSale`, `NotEnoughGold`,
        `NoSpace`, `Busy`, `KeyReused`, `Unavailable`.
        """
        checks.integer(qty, "qty", minimum=1, maximum=MAX_QTY)
        _check_different(shopkeeper, "shopkeeper", other=character, other_field="character")
        return self._actions.run(
            "sell", trading.sell, key, also, character=character, shopkeeper=shopkeeper, item=item, qty=qty
        )

    # ---- create ----

    @operation()
    def create_location(
        self,
        id: str | None = None,
        *,
        description: str,
        name: str = "",
        exits: Mapping[str, str] | None = None,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Location:
        """Create a room. An exit may lead to a room that is created later; until then it cannot be used.

        Atomic: the room, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `AlreadyExists`; with a key also `KeyReused`.
        """
        room = location_document(id, description=description, name=name, exits=exits)
        arguments = {"id": id, "description": description, "name": name, "exits": room["exits"]}
        plan = Plan([Step(LOCATIONS, room["_id"], insert=room)], result=room).also(also)
        outcome = self._transactions.run("game room", plan, key=key, arguments=arguments)
        return cast(Location, outcome.result)

    @operation()
    def set_exits(self, location_id: str, exits: Mapping[str, str]) -> Location:
        """Replace a room's exits.

        Raises: `Invalid`, `UnknownLocation`.
        """
        change = {"$set": {"exits": checked_exits(exits)}, "$inc": {"version": 1}}
        where = {"_id": checks.identifier(location_id, "location")}
        room = self._db[LOCATIONS].find_one_and_update(where, change, return_document=True)
        if room is None:
            raise UnknownLocation(f"there is no room {location_id}", location_id=location_id)
        return cast(Location, room)

    @operation()
    def create_item(
        self,
        name: str,
        *,
        id: str | None = None,
        kind: str = "thing",
        location: str | None = None,
        character: str | None = None,
        container: str | None = None,
        qty: int = 1,
        weight: int = 1,
        price: int = 0,
        bonus: int = 0,
        description: str = "",
        key: str | Key | None = None,
        also: Sequence[Step] = (),
        **own: Any,
    ) -> Item:
        """Create a thing in a room, with a character or in a container; without any of these it is in the void.

        Some kinds have further fields: `hands` (weapon), `region` (armor), `heals` and `mana` (potion), `capacity`
        (container).

        Atomic: the thing and its holder, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownLocation`, `UnknownCharacter`, `UnknownThing`, `AlreadyExists`, `TooHeavy`,
        `NoSpace`, `NotMadeForThat`, `Busy`; with a key also `KeyReused`.
        """
        given = {"name": name, "qty": qty, "weight": weight, "price": price, "bonus": bonus, "description": description}
        item = item_document(id, kind, {**given, **own})
        holders = {"location": location, "character": character, "container": container}
        where = {kind: holder_id for kind, holder_id in holders.items() if holder_id is not None}
        if len(where) > 1:
            raise Invalid("give only one of location, character and container", field="location")
        arguments = {"id": id, "kind": kind, **given, **own, **where}
        outcome = self._transactions.run(
            "game thing",
            lambda: plan_item(self._records, item, where, self._clock()).also(also),
            key=key,
            arguments=arguments,
        )
        return cast(Item, outcome.result)

    @operation()
    def create_character(
        self,
        name: str,
        *,
        location: str,
        id: str | None = None,
        gold: int = 0,
        kind: str = "player",
        owner: str | None = None,
        max_owned: int | None = None,
        character_class: str = "wanderer",
        health: int | None = None,
        mana: int | None = None,
        intrinsics: Mapping[str, int] | None = None,
        wanders: bool = False,
        shop: Mapping[str, int] | None = None,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Character:
        """Create a character. The world mints the character's `gold`.

        With `max_owned` the owner has at most that number of characters, also if several are created concurrently.

        Atomic: the character, their name, the room and the event, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownLocation`, `NameTaken`, `AlreadyExists`, `LimitReached`, `Busy`; with a key also
        `KeyReused`.
        """
        document = character_document(
            name,
            id=id,
            gold=gold,
            kind=kind,
            owner=owner,
            character_class=character_class,
            health=health,
            mana=mana,
            intrinsics=intrinsics,
            wanders=wanders,
            shop=shop,
            at=self._clock(),
        )

        def plan() -> Plan:
            made = plan_character(self._db, self._records, document, location, self._clock(), max_owned=max_owned)
            return made.also(also)

        arguments = {"id": id, "name": name, "location": location, "gold": gold, "kind": kind, "owner": owner}
        outcome = self._transactions.run("game character", plan, key=key, arguments=arguments)
        return cast(Character, outcome.result)

    def load_world(self, file: Path | str) -> Report:
        """Load a world from a YAML or JSON file, from a CircleMUD file, or from a folder of CircleMUD files.

        The report counts what was created. It lists, by file and line, what could not be read and which exits lead to
        no room. A room that already exists is left as it is, with everything in it.

        Atomic: each room with everything in it; several rooms share one `Transactions` run.
        After a crash: run it again; it creates the rooms that are missing.
        Raises: `Invalid` for a file that cannot be read at all; `AlreadyExists` if a character or a thing of a missing
        room exists elsewhere; `Busy`, `Unavailable`.
        """
        return insert_rooms(self._db, self._transactions, read_world(file), self._clock())


def _check_qty(qty: int | None) -> None:
    """Raises: `Invalid`."""
    if qty is not None:
        checks.integer(qty, "qty", minimum=1, maximum=MAX_QTY)


def _check_different(value: str, field: str, *, other: str, other_field: str) -> None:
    """Raises: `Invalid` if both ids are the same."""
    if value == other:
        raise Invalid(f"{field} must be different from {other_field}", field=field)
