"""Create rooms, things and characters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, cast

from squinney import checks
from squinney.clock import Clock
from squinney.errors import Conflict, Invalid, LimitReached, SquinneyError
from squinney.game import queries, rules
from squinney.game.actions.draft import Draft
from squinney.game.actions.transfer import Transfer
from squinney.game.documents import CHARACTERS, LOCATIONS, NAMES, Character, Item, Location
from squinney.game.errors import NameTaken
from squinney.game.new_documents import character_document, checked_exits, item_document, location_document
from squinney.game.records import Records
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db
from squinney.transactions import UNLOCKED, Busy, Key, Plan, Stale, Step, Transactions


class Building:
    """The methods of `World` that create rooms, things and characters."""

    _db: Db
    _records: Records
    _transactions: Transactions
    _clock: Clock

    @operation()
    def create_location(
        self,
        id: str | None = None,
        *,
        description: str,
        name: str = "",
        exits: Mapping[str, str] | None = None,
        key: str | Key | None = None,
    ) -> Location:
        """Create a room. An exit may lead to a room that is created later; until then it cannot be used.

        Atomic: the room, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `AlreadyExists`; with a key also `KeyReused` and `StillRunning`.
        """
        room = location_document(id, description=description, name=name, exits=exits)
        arguments = {"id": id, "description": description, "name": name, "exits": room["exits"]}
        plan = Plan([Step(LOCATIONS, room["_id"], insert=room)], result=room)
        outcome = self._transactions.run("game room", plan, key=key, arguments=arguments)
        return cast(Location, outcome.result)

    @operation()
    def set_exits(self, location_id: str, exits: Mapping[str, str]) -> Location:
        """Replace a room's exits.

        Raises: `Invalid`, `UnknownLocation`, `Busy` if a two-phase action holds the room.
        """
        change = {"$set": {"exits": checked_exits(exits)}, "$inc": {"version": 1}}
        checks.identifier(location_id, "location")
        where = {"_id": location_id, **UNLOCKED}
        room = self._db[LOCATIONS].find_one_and_update(where, change, return_document=True)
        if room is None:
            self._records.room(location_id)
            raise Busy(f"room {location_id} is being changed; try again", location_id=location_id)
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
        **own: Any,
    ) -> Item:
        """Create a thing in a room, with a character or in a container; without any of these it is in the void.

        Some kinds have further fields: `hands` (weapon), `region` (armor), `heals` and `mana` (potion), `capacity`
        (container).

        Atomic: the thing and its holder, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownLocation`, `UnknownCharacter`, `UnknownThing`, `AlreadyExists`, `TooHeavy`,
        `NoSpace`, `NotMadeForThat`, `Busy`; with a key also `KeyReused` and `StillRunning`.
        """
        given = {"name": name, "qty": qty, "weight": weight, "price": price, "bonus": bonus, "description": description}
        item = item_document(id, kind, {**given, **own})
        holders = {"location": location, "character": character, "container": container}
        where = {kind: holder_id for kind, holder_id in holders.items() if holder_id is not None}
        if len(where) > 1:
            raise Invalid("give only one of location, character and container", field="location")

        def build() -> Plan:
            draft = Draft(self._clock(), self._records)
            created = cast(Item, {**item})
            draft.insert_item(created)
            transfer = Transfer(draft, created, None, is_new=True)
            if location is not None:
                transfer.to_room(checks.identifier(location, "location"))
            elif character is not None:
                transfer.to_character(draft.character(character), may_merge=False)
            elif container is not None:
                self._put_into(container, transfer)
            return Plan(draft.steps(), result=created)

        arguments = {"id": id, "kind": kind, **given, **own, **where}
        outcome = self._transactions.run("game thing", build, key=key, arguments=arguments)
        return cast(Item, outcome.result)

    def _put_into(self, container_id: str, transfer: Transfer) -> None:
        container = self._records.item(container_id)
        around, outermost = self._records.containers_around(container)
        transfer.to_container([container, *around], outermost)

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
        most_owned: int | None = None,
        character_class: str = "wanderer",
        health: int | None = None,
        mana: int | None = None,
        intrinsics: Mapping[str, int] | None = None,
        wanders: bool = False,
        shop: Mapping[str, int] | None = None,
        key: str | Key | None = None,
    ) -> Character:
        """Create a character. The world mints the character's `gold`.

        With `most_owned` the owner has at most that number of characters, also if several are created concurrently.

        Atomic: the character, their name, the room and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownLocation`, `NameTaken`, `AlreadyExists`, `LimitReached`, `Busy`; with a key also
        `KeyReused` and `StillRunning`.
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

        def build() -> Plan:
            room = self._records.room(location)
            created = {**document, "seen": [location], "location": rules.copy_of(room)}
            if owner is None or most_owned is None:
                return Plan(self._creation_steps(created, location), result=created)
            created["_id"] = self._next_id(owner, most_owned)
            return Plan(self._creation_steps(created, location, id_taken=Stale), result=created)

        arguments = {"id": id, "name": name, "location": location, "gold": gold, "kind": kind, "owner": owner}
        outcome = self._transactions.run("game character", build, key=key, arguments=arguments)
        return cast(Character, outcome.result)

    def _creation_steps(
        self, character: dict[str, Any], location_id: str, *, id_taken: type[SquinneyError] = Conflict
    ) -> list[Step]:
        draft = Draft(self._clock(), self._records)
        draft.room(location_id).list_person(character)
        draft.add_event("arrived", character, f"{character['name']} appears")
        reserved = {"character_id": character["_id"]}
        name = character["name"]
        taken = NameTaken(f"another character is called {name}", name=name)
        return [
            *draft.steps(),
            Step(NAMES, name.casefold(), insert=reserved, refused=lambda _: taken),
            Step(CHARACTERS, character["_id"], insert=character, refused=id_taken),
        ]

    def _next_id(self, owner: str, most: int) -> str:
        """Derive the id of an owner's next character from its number.

        Two concurrent calls get the same id: one of them is refused as stale, and counts again.
        """
        owned = self._db[CHARACTERS].count_documents(queries.OWNED(owner=owner), limit=most)
        if owned >= most:
            raise LimitReached(f"you can have at most {most} characters", limit=most)
        return hashlib.sha256(f"{owner} {owned}".encode()).hexdigest()[:26]
