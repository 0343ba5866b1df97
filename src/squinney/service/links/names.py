"""The names of people, for pages of systems that know only ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from squinney.identity import People, UnknownPerson
from squinney.system import Assembled

NameOf = Callable[[str], str]


def names_of_people(systems: Assembled, neighbours: Mapping[str, str]) -> NameOf:
    """Return a function that returns the name of a person, or an empty string for an id that is nobody's.

    `neighbours` are the names of people who are not stored: those of the demo.
    """
    people: People | None = systems.services.get("identity", {}).get("people")

    def name_of(person_id: str) -> str:
        try:
            if people is None:
                return neighbours.get(person_id, "")
            person = people.get(person_id)
        except UnknownPerson:
            return neighbours.get(person_id, "")
        return person["name"] or person["login"]

    return name_of
