"""A world as it was read from files, before anything of it is made; and what came of making it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_TOLD = 1_000  # problems that a report names; all are counted


@dataclass(frozen=True)
class Unread:
    """What could not be read, or leads nowhere, and where it stands."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


@dataclass
class Blueprint:
    """Rooms, characters and things, as arguments of the world's `create_` methods.

    A thing names its place as `location`, `character` or `container`; those it lies in come before it.
    """

    name: str = ""
    start: str = ""
    rooms: dict[str, dict[str, Any]] = field(default_factory=dict)
    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    things: dict[str, dict[str, Any]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    lines: dict[str, tuple[str, int]] = field(default_factory=dict)  # where a room, person or thing stands

    def tell(self, file: str, line: int, what: str) -> None:
        """Note what cannot be read."""
        self.unread.append(Unread(file, line, what))

    def tell_of(self, name: str, what: str) -> None:
        """Note what is wrong with a room, a person or a thing."""
        self.tell(*self.lines.get(name, ("", 0)), what)

    def check_references(self) -> None:
        """Take out what stands in no room and lies in nothing, and tell of exits that lead to no room."""
        for room_id, room in self.rooms.items():
            for direction, target in room.get("exits", {}).items():
                if target not in self.rooms:
                    self.tell_of(room_id, f"the exit {direction} of room {room_id} leads to {target}, which is no room")
        for person_id in [one for one, person in self.people.items() if person["location"] not in self.rooms]:
            self.tell_of(person_id, f"{person_id} is in {self.people[person_id]['location']}, which is no room")
            del self.people[person_id]
        known = {"location": self.rooms, "character": self.people}
        for thing_id, thing in list(self.things.items()):
            for kind, place in self._places(thing):
                if place not in known.get(kind, self.things):
                    self.tell_of(thing_id, f"{thing_id} is in {place}, which is not there")
                    self.things.pop(thing_id, None)

    def _places(self, thing: dict[str, Any]) -> Iterator[tuple[str, str]]:
        for kind in ("location", "character", "container"):
            if kind in thing:
                yield kind, thing[kind]


@dataclass
class Report:
    """What was made of a blueprint; what was there already is left as it is."""

    name: str = ""
    start: str = ""
    rooms: int = 0
    people: int = 0
    things: int = 0
    already_there: int = 0
    problems: int = 0
    unread: list[Unread] = field(default_factory=list)

    def tell(self, unread: Unread) -> None:
        """Count a problem, and name it if it is among the first."""
        self.problems += 1
        if len(self.unread) < MOST_TOLD:
            self.unread.append(unread)
