"""Building the world: rooms, things and characters are created."""

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
from squinney.transactions import AT_REST, Busy, Key, Plan, Stale, Step, Transactions


class Building:
    """The part of `World` that makes things."""

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
        """Make a room. An exit may lead to a room that is made later; until then nobody gets through.

        Atomic: one insert.
        After a crash: it is there or it is not.
        Raises: `Invalid`, `AlreadyExists`; with a key also `KeyReused` and `StillRunning`.
        """
        room = location_document(id, description=description, name=name, exits=exits)
        arguments = {"id": id, "description": description, "name": name, "exits": room["exits"]}
        plan = Plan([Step(LOCATIONS, room["_id"], insert=room)], result=room)
        outcome = self._transactions.run("game room", plan, key=key, arguments=arguments)
        return cast(Location, outcome.result)

    @operation()
    def set_exits(self, location_id: str, exits: Mapping[str, str]) -> Location:
        """Change where a room's exits lead.

        Raises: `Invalid`, `UnknownLocation`, `Busy` where somebody acts there.
        """
        change = {"$set": {"exits": checked_exits(exits)}, "$inc": {"version": 1}}
        checks.identifier(location_id, "location")
        where = {"_id": location_id, **AT_REST}
        room = self._db[LOCATIONS].find_one_and_update(where, change, return_document=True)
        if room is None:
            self._records.room(location_id)
            raise Busy(f"somebody acts in room {location_id}; try again", location_id=location_id)
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
        """Make a thing in a room, with a character or in a container; with none of them it is nowhere in the world.

        A kind has fields of its own: `hands` (weapon), `region` (armor), `heals` and `mana` (potion), `capacity`
        (container).

        Atomic: the thing and who or what holds it, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownLocation`, `UnknownCharacter`, `UnknownThing`, `AlreadyExists`, `TooHeavy`,
        `NoSpace`, `NotMadeForThat`, `Busy`; with a key also `KeyReused` and `StillRunning`.
        """
        given = {"name": name, "qty": qty, "weight": weight, "price": price, "bonus": bonus, "description": description}
        item = item_document(id, kind, {**given, **own})
        places = {"location": location, "character": character, "container": container}
        where = {place: one for place, one in places.items() if one is not None}
        if len(where) > 1:
            raise Invalid("a thing is in one place: a location, a character or a container", field="location")

        def build() -> Plan:
            draft = Draft(self._clock(), self._records)
            made = cast(Item, {**item})
            draft.make(made)
            transfer = Transfer(draft, made, None, is_new=True)
            if location is not None:
                transfer.to_room(checks.identifier(location, "location"))
            elif character is not None:
                transfer.to_character(draft.character(self._records.character(character)), may_join=False)
            elif container is not None:
                self._into(draft, transfer, container)
            return Plan(draft.steps(), result=made)

        arguments = {"id": id, "kind": kind, **given, **own, **where}
        outcome = self._transactions.run("game thing", build, key=key, arguments=arguments)
        return cast(Item, outcome.result)

    def _into(self, draft: Draft, transfer: Transfer, container_id: str) -> None:
        container = self._records.item(container_id)
        around, outermost = self._records.around(container)
        carrier = None
        if outermost["kind"] == "character":
            carrier = draft.character(self._records.character(str(outermost["id"])))
        transfer.to_container([container, *around], outermost, carrier)

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
        """Make a character, with gold that the world mints for them.

        With `most_owned` the owner gets no more than so many, also where several are made at once.

        Atomic: the character, their name, the room and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownLocation`, `NameTaken`, `AlreadyExists`, `LimitReached`, `Busy`; with a key also
        `KeyReused` and `StillRunning`.
        """
        made = character_document(
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
            born = {**made, "seen": [location], "location": rules.copy_of(room)}
            if owner is None or most_owned is None:
                return Plan(self._birth(born, location), result=born)
            born["_id"] = self._next_id(owner, most_owned)
            return Plan(self._birth(born, location, id_taken=Stale), result=born)

        arguments = {"id": id, "name": name, "location": location, "gold": gold, "kind": kind, "owner": owner}
        outcome = self._transactions.run("game character", build, key=key, arguments=arguments)
        return cast(Character, outcome.result)

    def _birth(self, born: dict[str, Any], location_id: str, *, id_taken: type[SquinneyError] = Conflict) -> list[Step]:
        draft = Draft(self._clock(), self._records)
        draft.room(location_id).list_person(born)
        draft.tell("arrived", born, f"{born['name']} appears")
        reserved = {"character_id": born["_id"]}
        name = born["name"]
        taken = NameTaken(f"another character is called {name}", name=name)
        return [
            *draft.steps(),
            Step(NAMES, name.casefold(), insert=reserved, refused=lambda _: taken),
            Step(CHARACTERS, born["_id"], insert=born, refused=id_taken),
        ]

    def _next_id(self, owner: str, most: int) -> str:
        """The id of an owner's next character follows from its number: of two made at once, one finds it taken."""
        owned = self._db[CHARACTERS].count_documents(queries.OWNED(owner=owner), limit=most)
        if owned >= most:
            raise LimitReached(f"one has at most {most} characters", limit=most)
        return hashlib.sha256(f"{owner} {owned}".encode()).hexdigest()[:26]
