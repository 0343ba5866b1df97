"""Insert the rooms of a blueprint, several in one run, each with everything in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import cast

from squinney.errors import SquinneyError
from squinney.game import queries, rules
from squinney.game.character_names import name_keys, reserved_keys
from squinney.game.creating.new_documents import character_document, item_document, location_document
from squinney.game.documents import (
    CHARACTERS,
    ITEMS,
    LOCATIONS,
    MAX_CONTAINER_DEPTH,
    MAX_IN_CONTAINER,
    MAX_LISTED,
    NAMES,
    Entry,
)
from squinney.game.entries import entry_of, size_of, weight_of
from squinney.game.errors import NameTaken, NoSpace, NotMadeForThat, TooHeavy
from squinney.game.loading.blueprint import HOLDERS, Blueprint, Report, Unread, holder_of
from squinney.mongo.schema import Db, Document
from squinney.transactions import AlreadyExists, Step, Transactions

ROOMS_AT_ONCE = 100
NAMES_AT_ONCE = 1_000
MAX_STEPS = 500
MAX_IN_ROOM = 5_000  # documents; a character is three, because its name is two
HolderKey = tuple[str, str]  # kind and id


def insert_rooms(db: Db, transactions: Transactions, blueprint: Blueprint, at: datetime) -> Report:
    """Insert the rooms that do not exist yet, with everything in them, and report what was inserted.

    If another process creates one of the rooms or takes a name in the meantime, begin again: the rest still loads.
    """
    report, existed_before = Report(name=blueprint.name, start=blueprint.start), None
    while True:
        builder = _RoomBuilder(db, blueprint, report, at)
        try:
            _insert_missing(db, transactions, builder, blueprint)
        except AlreadyExists:
            # guard: a load begins again if another process takes a name in the meantime
            if builder.found == existed_before:  # nothing is new: an id of the blueprint exists elsewhere in the world
                raise
            existed_before = builder.found
            report = replace(report, already_there=-report.rooms, problems=0, unread=[])
        else:
            return report


def _insert_missing(db: Db, transactions: Transactions, builder: _RoomBuilder, blueprint: Blueprint) -> None:
    room_ids = iter(blueprint.rooms)
    while batch := list(islice(room_ids, ROOMS_AT_ONCE)):
        existing = {
            location["_id"] for location in queries.SOME_LOCATIONS.find(db, location_ids=batch, projection={"_id": 1})
        }
        builder.count_existing(existing)
        missing = [room_id for room_id in batch if room_id not in existing]
        builder.build_people(missing)
        for steps in _grouped(builder.room_steps(room_id) for room_id in missing):
            transactions.run("game load", steps)
            builder.count_inserted(steps)


def _grouped(rooms: Iterable[list[Step]]) -> Iterator[list[Step]]:
    """Group the steps of several rooms into runs of at most `MAX_STEPS`. A room is never split, and may be larger."""
    steps: list[Step] = []
    for room in rooms:
        if steps and len(steps) + len(room) > MAX_STEPS:
            yield steps
            steps = []
        steps = [*steps, *room]
    if steps:
        yield steps


class _RoomBuilder:
    """Builds the documents of a blueprint; what breaks a rule is reported and left out."""

    def __init__(self, db: Db, blueprint: Blueprint, report: Report, at: datetime) -> None:
        self._db = db
        self._blueprint = blueprint
        self._report = report
        self._at = at
        self._things: dict[HolderKey, list[str]] = defaultdict(list)
        for thing_id, thing in blueprint.things.items():
            self._things[holder_of(thing)].append(thing_id)
        self._people: dict[str, list[str]] = defaultdict(list)
        for person_id, person in blueprint.people.items():
            self._people[person["location"]].append(person_id)
        self._built: dict[str, Document] = {}
        self._taken_names: set[str] = set()
        self.found: set[tuple[str, str]] = set()  # the rooms and names of the blueprint that already existed
        for unread in blueprint.unread:
            report.add_problem(unread)

    def build_people(self, room_ids: Sequence[str]) -> None:
        """Build the characters in these rooms, and query which of their names are taken, many at once."""
        for person_id in (person_id for room_id in room_ids for person_id in self._people[room_id]):
            given = {name: value for name, value in self._blueprint.people[person_id].items() if name != "location"}
            try:
                self._built[person_id] = character_document(id=person_id, at=self._at, **given)
            except SquinneyError as error:
                self._add_problem(person_id, error)
        names = (key for built in self._built.values() for key in _all_keys(built["name"]))
        while batch := list(islice(names, NAMES_AT_ONCE)):
            taken = {name["_id"] for name in queries.SOME_NAMES.find(self._db, names=batch)}
            self._taken_names |= taken
            self.found |= {(NAMES, name) for name in taken}

    def count_existing(self, room_ids: Iterable[str]) -> None:
        """Add rooms that already exist to the report."""
        rooms = {(LOCATIONS, room_id) for room_id in room_ids}
        self.found |= rooms
        self._report.already_there += len(rooms)

    def count_inserted(self, steps: Sequence[Step]) -> None:
        """Add the documents of committed steps to the report."""
        collections = [step.name for step in steps]
        self._report.rooms += collections.count(LOCATIONS)
        self._report.people += collections.count(CHARACTERS)
        self._report.things += collections.count(ITEMS)

    def room_steps(self, room_id: str) -> list[Step]:
        """Return the inserts of a room, its characters with their names, and all things there."""
        try:
            room = location_document(room_id, **self._blueprint.rooms[room_id])
        except SquinneyError as error:
            self._add_problem(room_id, error)
            return []
        if room_id == self._blueprint.start:
            room["is_start"] = True
        items: list[Document] = []
        entries = [entry_of(thing) for thing in self._build_things("location", room_id, items)]
        people = [person for person_id in self._people[room_id] if (person := self._person(person_id, items))]
        room["players"] = [rules.person_of(person) for person in people][:MAX_LISTED]
        room["inventory"] = entries[:MAX_LISTED]
        room["player_count"], room["thing_count"] = len(people), len(entries)
        for person in people:
            person["location"], person["seen"] = rules.copy_of(room), [room_id]
        if len(items) + 3 * len(people) > MAX_IN_ROOM:  # a room is never split, and a run must end in time
            crowd = f"{len(people)} people (who count three times) and {len(items)} things"
            self._add_problem(room_id, NoSpace(f"{crowd} are too many for one room; the limit is {MAX_IN_ROOM}"))
            return []
        names = [
            Step(NAMES, key, insert={"character_id": person["_id"]})
            for person in people
            for key in reserved_keys(person["name"])
        ]
        return [
            Step(LOCATIONS, room_id, insert=cast(Document, room)),
            *(Step(ITEMS, item["_id"], insert=item) for item in items),
            *(Step(CHARACTERS, person["_id"], insert=person) for person in people),
            *names,
        ]

    def _person(self, person_id: str, items: list[Document]) -> Document | None:
        character = self._built.pop(person_id, None)
        if character is None:
            return None
        name = character["name"]
        # guard: a loaded character whose name is taken is left out
        if not self._taken_names.isdisjoint(_all_keys(name)):
            self._add_problem(person_id, NameTaken(f"another character is called {name}"))
            return None
        self._taken_names.update(reserved_keys(name))
        for thing in self._build_things("character", person_id, items, carrier=character):
            character["inventory"].append(self._entry(thing, items))
        return character

    def _entry(self, thing: Document, items: list[Document]) -> Entry:
        if thing["kind"] != "container":
            return entry_of(thing)
        contents = [item for item in items if item["holder"] == {"kind": "item", "id": thing["_id"]}]
        return entry_of(thing, [self._entry(content, items) for content in contents])

    def _build_things(
        self, kind: str, holder_id: str, items: list[Document], *, depth: int = 0, carrier: Document | None = None
    ) -> list[Document]:
        """Build a holder's things, append them with their contents to `items`, and return those held directly."""
        direct = []
        for thing_id in self._things[kind, holder_id]:
            contents: list[Document] = []
            try:
                thing = self._thing(thing_id, contents, depth)
                if carrier is not None:
                    _add_load(carrier, thing)
            except SquinneyError as error:
                self._add_problem(thing_id, error)
                continue
            thing["holder"] = {"kind": "item" if kind == "container" else kind, "id": holder_id}
            items += [thing, *contents]
            direct.append(thing)
        return direct

    def _thing(self, thing_id: str, contents: list[Document], depth: int) -> Document:
        """Build a thing, and append its contents to `contents`."""
        fields = {name: value for name, value in self._blueprint.things[thing_id].items() if name not in HOLDERS}
        kind = fields.pop("kind", "thing")
        thing = item_document(thing_id, kind, fields)
        if not self._things["container", thing_id]:
            return thing
        if kind != "container":
            raise NotMadeForThat(f"{thing['name']} holds nothing")
        if depth + 1 >= MAX_CONTAINER_DEPTH and any(
            self._blueprint.things[inner_id].get("kind") == "container"
            for inner_id in self._things["container", thing_id]
        ):
            raise NoSpace(f"bags go into bags {MAX_CONTAINER_DEPTH} deep, and no deeper", limit=MAX_CONTAINER_DEPTH)
        direct = self._build_things("container", thing_id, contents, depth=depth + 1)
        thing["load"] = sum(weight_of(content) for content in direct)
        thing["count"], thing["things"] = len(direct), len(contents)
        if thing["load"] > thing["capacity"]:
            raise TooHeavy(f"{thing['name']} holds {thing['capacity']}, not {thing['load']}", limit=thing["capacity"])
        if len(direct) > MAX_IN_CONTAINER:
            raise NoSpace(f"{thing['name']} holds {MAX_IN_CONTAINER} things", limit=MAX_IN_CONTAINER)
        return thing

    def _add_problem(self, id: str, error: SquinneyError) -> None:
        self._report.add_problem(Unread(*self._blueprint.defined_at.get(id, ("", 0)), f"{id}: {error.message}"))


def _add_load(carrier: Document, thing: Document) -> None:
    after = {**carrier, "load": carrier["load"] + weight_of(thing)}
    after["things"] = carrier["things"] + size_of(thing)
    rules.require_can_carry(carrier, after)
    carrier.update(load=after["load"], things=after["things"])


def _all_keys(name: str) -> set[str]:
    return {*name_keys(name), *reserved_keys(name)}
