"""A world as read from files, before it is inserted, and the report of the load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_REPORTED = 1_000  # problems that a report lists; all are counted
HOLDERS = ("location", "character", "container")


@dataclass(frozen=True)
class Unread:
    """A part of a file that could not be read or refers to nothing, with its file and line."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


@dataclass
class Blueprint:
    """Rooms, characters and things by id, as arguments of the world's `create_` methods.

    Each thing names its holder as `location`, `character` or `container`. A container comes before its contents.
    """

    name: str = ""
    start: str = ""
    rooms: dict[str, dict[str, Any]] = field(default_factory=dict)
    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    things: dict[str, dict[str, Any]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    defined_at: dict[str, tuple[str, int]] = field(default_factory=dict)  # file and line of each id

    def add_problem(self, file: str, line: int, what: str) -> None:
        """Report a part of a file that cannot be read."""
        self.unread.append(Unread(file, line, what))

    def add_problem_of(self, id: str, what: str) -> None:
        """Report a problem of a room, a character or a thing, at the line that defines it."""
        self.add_problem(*self.defined_at.get(id, ("", 0)), what)

    def check_references(self) -> None:
        """Report exits that lead to no room, and remove characters and things whose room or holder is not defined."""
        for room_id, room in self.rooms.items():
            for direction, target in room.get("exits", {}).items():
                if target not in self.rooms:
                    what = f"the exit {direction} of room {room_id} leads to {target}, which is not a room"
                    self.add_problem_of(room_id, what)
        for person_id in [key for key, person in self.people.items() if person["location"] not in self.rooms]:
            what = f"{person_id} is in {self.people[person_id]['location']}, which is not a room"
            self.add_problem_of(person_id, what)
            del self.people[person_id]
        known = {"location": self.rooms, "character": self.people, "container": self.things}
        for thing_id, thing in list(self.things.items()):
            kind, holder_id = holder_of(thing)
            if holder_id not in known[kind]:
                self.add_problem_of(thing_id, f"{thing_id} is in {holder_id}, which does not exist")
                del self.things[thing_id]


def holder_of(thing: dict[str, Any]) -> tuple[str, str]:
    """Return the kind and the id of a thing's holder."""
    return next((kind, thing[kind]) for kind in HOLDERS if kind in thing)


@dataclass
class Report:
    """The result of a load: what was created, what already existed, and what could not be read."""

    name: str = ""
    start: str = ""
    rooms: int = 0
    people: int = 0
    things: int = 0
    already_there: int = 0
    problems: int = 0
    unread: list[Unread] = field(default_factory=list)

    def add_problem(self, unread: Unread) -> None:
        """Count a problem, and list it if fewer than `MAX_REPORTED` are listed."""
        self.problems += 1
        if len(self.unread) < MAX_REPORTED:
            self.unread.append(unread)
