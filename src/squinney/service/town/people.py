"""The fourteen people of the town, their circles and their posts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from squinney.errors import Conflict
from squinney.service.links.post_photos import post_photos
from squinney.service.town.parts import Town
from squinney.service.town.products import read_texts
from squinney.service.town.scenes import scene
from squinney.social import CIRCLES, PUBLIC, Network
from squinney.social.demo import load_people
from squinney.transactions import Key

AUDIENCES = {"public": PUBLIC, "circles": CIRCLES}
# Author, days ago, scene, text and what the picture shows.
PHOTOS = [
    ("carla", 83.8, "forest", "The path is there. One only has to know it.", "Firs in fog behind the old mill"),
    ("eva", 11.6, "winter", "It moves if you listen.", "Floes on the inner harbour in the morning"),
    ("hana", 45, "street", "The third one flickers. It always has.", "Cooper Street by night, lamp by lamp"),
    ("ben", 4, "harbour", "Five in the morning, oven lit, harbour not.", "Houses along the quay at sunrise"),
    ("grace", 21.5, "lighthouse", "One hundred and nine steps.", "The lighthouse at dusk, with its beam"),
]


@dataclass(frozen=True)
class Person:
    """Somebody who lives in the town."""

    user: str
    name: str
    about: str
    place: str

    @property
    def id(self) -> str:
        """The id in every system."""
        return f"demo-{self.user}"

    @property
    def author(self) -> Any:
        """The person as the author of a page."""
        return {"_id": self.id, "name": self.name}


@cache
def people() -> dict[str, Person]:
    """Return the people by their short names."""
    return {cells[0]: Person(*cells) for _, cells in read_texts("people.txt")}


def load(town: Town) -> None:
    """Load people, circles, posts with comments, and photos.

    Atomic: each member, edge, post, photo and comment by itself.
    After a crash: the next call continues.
    """
    members = {person.user: (person.name, person.about, person.place) for person in people().values()}
    circled = [
        (owner, other, circle) for _, (owner, circle, others) in read_texts("circles.txt") for other in others.split()
    ]
    load_people(town.db, town.now, members, circled, _posts())
    _load_photos(town)


def _posts() -> list[Any]:
    posts: list[Any] = []
    for _, cells in read_texts("posts.txt"):
        if cells[0] == ">":
            posts[-1][6].append((cells[1], cells[2]))
            continue
        days, author, audience, wall, text = cells
        circle = AUDIENCES.get(audience, audience)
        posts.append((float(days) * 24, author, circle, wall or None, "status", {"text": text}, []))
    return posts


def _load_photos(town: Town) -> None:
    store = post_photos(town.systems)
    if store is None:
        return
    for author, days, kind, text, alt in PHOTOS:
        person = people()[author]
        network = Network(town.db, clock=partial(town.ago, days))
        file = store.keep(scene(kind, author), person.id, person.name)
        with suppress(Conflict):  # posted before: the job `forget-lost-photos` deletes this copy
            detail = {"text": text, "alt": alt, "file": file}
            network.post(person.id, "photo", detail, [PUBLIC], key=Key(f"photo {author}", "social demo"))
        network.deliver()
