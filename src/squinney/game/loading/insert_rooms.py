"""The rooms of a blueprint are inserted, some at a time, each with all that is in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import cast

from squinney.errors import SquinneyError
from squinney.game import queries, rules
from squinney.game.documents import (
    CHARACTERS,
    DEEPEST,
    ITEMS,
    LOCATIONS,
    MOST_IN_CONTAINER,
    MOST_LISTED,
    NAMES,
    Entry,
)
from squinney.game.errors import NoSpace, NotMadeForThat, TooHeavy
from squinney.game.loading.blueprint import Blueprint, Report, Unread
from squinney.game.new_documents import character_document, item_document, location_document
from squinney.mongo.schema import Db, Document
from squinney.transactions import Step, Transactions

ROOMS_AT_ONCE = 100
NAMES_AT_ONCE = 1_000
MOST_STEPS = 500
MOST_IN_ROOM = 5_000  # documents; a name is one, too
Place = tuple[str, str]  # of what kind, and which


def insert_rooms(db: Db, transactions: Transactions, plan: Blueprint, at: datetime) -> Report:
    """Each run makes some rooms with all that is in them; rooms that are there already stay as they are."""
    report = Report(name=plan.name, start=plan.start)
    for unread in plan.unread:
        report.tell(unread)
    maker = _Maker(db, plan, report, at)
    waiting = iter(plan.rooms)
    while batch := list(islice(waiting, ROOMS_AT_ONCE)):
        there = {one["_id"] for one in queries.SOME_LOCATIONS.find(db, location_ids=batch, projection={"_id": 1})}
        report.already_there += len(there)
        missing = [room_id for room_id in batch if room_id not in there]
        maker.people(missing)
        for steps in _runs(maker.room(room_id) for room_id in missing):
            transactions.run("game load", steps)
            maker.count(steps)
    return report


def _runs(rooms: Iterable[list[Step]]) -> Iterator[list[Step]]:
    """As few runs as can be, none of which is very large; a room is never cut."""
    steps: list[Step] = []
    for room in rooms:
        if steps and len(steps) + len(room) > MOST_STEPS:
            yield steps
            steps = []
        steps = [*steps, *room]
    if steps:
        yield steps


class _Maker:
    """Makes documents of a blueprint; what breaks a rule is told and left out."""

    def __init__(self, db: Db, plan: Blueprint, report: Report, at: datetime) -> None:
        self._db = db
        self._plan = plan
        self._report = report
        self._at = at
        self._things: dict[Place, list[str]] = defaultdict(list)
        for thing_id, thing in plan.things.items():
            for kind in ("location", "character", "container"):
                if kind in thing:
                    self._things[kind, thing[kind]].append(thing_id)
        self._people: dict[str, list[str]] = defaultdict(list)
        for person_id, person in plan.people.items():
            self._people[person["location"]].append(person_id)
        self._made: dict[str, Document] = {}
        self._names: set[str] = set()

    def people(self, room_ids: Sequence[str]) -> None:
        """Make those in the rooms, and ask whose names are taken, of many at once."""
        for person_id in (one for room_id in room_ids for one in self._people[room_id]):
            given = {name: value for name, value in self._plan.people[person_id].items() if name != "location"}
            try:
                self._made[person_id] = character_document(id=person_id, at=self._at, **given)
            except SquinneyError as error:
                self._tell(person_id, error)
        names = (one["name"].casefold() for one in self._made.values())
        while some := list(islice(names, NAMES_AT_ONCE)):
            self._names |= {one["_id"] for one in queries.SOME_NAMES.find(self._db, names=some)}

    def count(self, steps: Sequence[Step]) -> None:
        """What was made."""
        made = [step.name for step in steps]
        self._report.rooms += made.count(LOCATIONS)
        self._report.people += made.count(CHARACTERS)
        self._report.things += made.count(ITEMS)

    def room(self, room_id: str) -> list[Step]:
        """The room, those in it, and all things there, as inserts."""
        try:
            room = location_document(room_id, **self._plan.rooms[room_id])
        except SquinneyError as error:
            self._tell(room_id, error)
            return []
        if room_id == self._plan.start:
            room["is_start"] = True
        items: list[Document] = []
        entries = [rules.entry_of(one) for one in self._held("location", room_id, items)]
        people = [one for person_id in self._people[room_id] if (one := self._person(person_id, items))]
        room["players"] = [rules.person_of(one) for one in people][:MOST_LISTED]
        room["inventory"] = entries[:MOST_LISTED]
        room["player_count"], room["thing_count"] = len(people), len(entries)
        for one in people:
            one["location"], one["seen"] = rules.copy_of(room), [room_id]
        if len(items) + 2 * len(people) > MOST_IN_ROOM:  # a room is never cut, and no run may last for ever
            crowd = f"{len(people)} people and {len(items)} things"
            self._tell(room_id, NoSpace(f"{crowd} are too many for one room; names and all {MOST_IN_ROOM} may be"))
            return []
        names = [Step(NAMES, one["name"].casefold(), insert={"character_id": one["_id"]}) for one in people]
        return [
            Step(LOCATIONS, room_id, insert=cast(Document, room)),
            *(Step(ITEMS, one["_id"], insert=one) for one in items),
            *(Step(CHARACTERS, one["_id"], insert=one) for one in people),
            *names,
        ]

    def _person(self, person_id: str, items: list[Document]) -> Document | None:
        made = self._made.pop(person_id, None)
        if made is None:
            return None
        try:
            self._reserve(made["name"])
        except SquinneyError as error:
            self._tell(person_id, error)
            return None
        for thing in self._held("character", person_id, items, carrier=made):
            made["inventory"].append(self._entry(thing, items))
        return made

    def _reserve(self, name: str) -> None:
        known = name.casefold()
        if known in self._names:
            raise NotMadeForThat(f"another character is called {name}")
        self._names.add(known)

    def _entry(self, thing: Document, items: list[Document]) -> Entry:
        if thing["kind"] != "container":
            return rules.entry_of(thing)
        inside = [one for one in items if one["holder"] == {"kind": "item", "id": thing["_id"]}]
        return rules.entry_of(thing, [self._entry(one, items) for one in inside])

    def _held(
        self, kind: str, place: str, items: list[Document], *, depth: int = 0, carrier: Document | None = None
    ) -> list[Document]:
        """The things there, each with what is in it, put into `items`; returns those that lie there directly."""
        found = []
        for thing_id in self._things[kind, place]:
            inside: list[Document] = []
            try:
                thing = self._thing(thing_id, inside, depth)
                if carrier is not None:
                    _carry(carrier, thing)
            except SquinneyError as error:
                self._tell(thing_id, error)
                continue
            thing["holder"] = rules.holder("item" if kind == "container" else kind, place)
            items += [thing, *inside]
            found.append(thing)
        return found

    def _thing(self, thing_id: str, inside: list[Document], depth: int) -> Document:
        given = self._plan.things[thing_id]
        own = {name: value for name, value in given.items() if name not in ("location", "character", "container")}
        kind = own.pop("kind", "thing")
        thing = item_document(thing_id, kind, own)
        if not self._things["container", thing_id]:
            return thing
        if kind != "container":
            raise NotMadeForThat(f"{thing['name']} holds nothing")
        if depth + 1 >= DEEPEST and any(
            self._plan.things[one].get("kind") == "container" for one in self._things["container", thing_id]
        ):
            raise NoSpace(f"bags go into bags {DEEPEST} deep, and no deeper", limit=DEEPEST)
        held = self._held("container", thing_id, inside, depth=depth + 1)
        thing["load"] = sum(rules.weight_of(one) for one in held)
        thing["count"], thing["things"] = len(held), len(inside)
        if thing["load"] > thing["capacity"]:
            raise TooHeavy(f"{thing['name']} holds {thing['capacity']}, not {thing['load']}", limit=thing["capacity"])
        if len(held) > MOST_IN_CONTAINER:
            raise NoSpace(f"{thing['name']} holds {MOST_IN_CONTAINER} things", limit=MOST_IN_CONTAINER)
        return thing

    def _tell(self, name: str, error: SquinneyError) -> None:
        self._report.tell(Unread(*self._plan.lines.get(name, ("", 0)), f"{name}: {error.message}"))


def _carry(carrier: Document, thing: Document) -> None:
    after = {**carrier, "load": carrier["load"] + rules.weight_of(thing)}
    after["things"] = carrier["things"] + rules.size_of(thing)
    rules.require_can_carry(carrier, after)
    carrier.update(load=after["load"], things=after["things"])
