"""Demo data: twelve people with circles, posts and comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from squinney.clock import utcnow
from squinney.mongo.schema import Db
from squinney.social.documents import CIRCLES, PUBLIC
from squinney.social.errors import AlreadyJoined
from squinney.social.network import Network
from squinney.transactions import Key

PEOPLE: dict[str, tuple[str, str, str]] = {
    "ada": ("Ada Brandt", "Repairs looms, plays second viola.", "Lübeck"),
    "ben": ("Ben Okafor", "Bakes for a living, rows for fun.", "Bristol"),
    "carla": ("Carla Moretti", "Maps, mountains, mushrooms.", "Bolzano"),
    "dev": ("Dev Chatterjee", "Night trains and day jobs.", "Kolkata"),
    "eva": ("Eva Lindqvist", "Ice, mostly. Sometimes boats.", "Luleå"),
    "farid": ("Farid Haddad", "Teaches physics to fourteen-year-olds.", "Lyon"),
    "grace": ("Grace Mwangi", "Long-distance runner, short-distance cook.", "Nairobi"),
    "hana": ("Hana Kobayashi", "Paper, ink, and a very old press.", "Kyoto"),
    "ivan": ("Ivan Petrov", "Bees.", "Plovdiv"),
    "june": ("June Walker", "Librarian. Ask me anything.", "Leeds"),
    "kofi": ("Kofi Mensah", "Drums on Fridays.", "Accra"),
    "lena": ("Lena Schulz", "Doctor, cyclist, sceptic.", "Bern"),
}
# The owner, the other member, and the owner's circle that contains them.
CIRCLED: list[tuple[str, str, str]] = [
    *(("ada", other, "Orchestra") for other in ("ben", "june", "kofi")),
    *(("ada", other, "Friends") for other in ("carla", "eva", "lena")),
    *(("ben", other, "Rowing") for other in ("ada", "grace", "lena")),
    *(("carla", other, "Mountains") for other in ("eva", "lena", "dev", "ada")),
    *(("dev", other, "Trains") for other in ("eva", "june", "carla")),
    *(("eva", other, "Ice") for other in ("carla", "dev", "grace", "ada")),
    *(("farid", other, "Colleagues") for other in ("june", "lena")),
    *(("grace", other, "Runners") for other in ("kofi", "ben", "lena", "ada")),
    *(("hana", other, "Printers") for other in ("june", "ada", "farid")),
    *(("ivan", other, "Bee people") for other in ("june", "grace", "ada")),
    *(("june", other, "Readers") for other in ("ada", "hana", "ivan", "farid")),
    *(("kofi", other, "Band") for other in ("ada", "grace")),
    *(("lena", other, "Family") for other in ("carla",)),
    *(("lena", other, "Cyclists") for other in ("ben", "eva", "ada")),
]
# Hours ago, author, audience, owner of the wall, type, detail, comments.
POSTS: list[tuple[float, str, str, str | None, str, dict[str, str], list[tuple[str, str]]]] = [
    (70, "ivan", PUBLIC, None, "status", {"text": "First frost. The bees have closed the door."},
     [("grace", "Do they sleep?"), ("ivan", "They shiver, all together. It keeps the queen at 35 degrees."),
      ("june", "I have three books on this and none says it so well.")]),
    (52, "hana", PUBLIC, None, "link",
     {"text": "The press is from 1897 and prints better than I do.", "url": "https://example.com/press"},
     [("ada", "May I come and listen to it?")]),
    (47, "carla", "Mountains", None, "checkin",
     {"text": "Above the fog since seven. Boots dry, soup hot.", "place": "Rifugio Bolzano"},
     [("eva", "Keep me a bowl."), ("lena", "Knees of a goat, you have."), ("dev", "There is no train to that place?")]),
    (30, "dev", PUBLIC, None, "status",
     {"text": "Forty minutes late, and nobody minds: the tea came first. @eva-lindqvist this is how it is done."},
     [("eva", "In Luleå the ferry leaves without you *and* without tea.")]),
    (26, "june", PUBLIC, None, "status", {"text": "The library is open until ten again. Come in, it is warm."},
     [("farid", "Both my classes are coming on Thursday. You have been warned.")]),
    (22, "grace", CIRCLES, None, "status", {"text": "32 km before breakfast. Breakfast: everything."},
     [("kofi", "I drummed for four hours and call that even."), ("lena", "As your doctor: well done.")]),
    (9, "ada", "Orchestra", None, "status", {"text": "Rehearsal moved to Thursday, seven. Bring the Dvořák."},
     [("kofi", "And the small drum?"), ("ada", "And the small drum.")]),
    (6, "kofi", PUBLIC, "ada", "status", {"text": "Happy birthday, second viola! The first ones are jealous."},
     [("ada", "You remembered!"), ("june", "Happy birthday from the whole reading room.")]),
    (3, "lena", PUBLIC, None, "status", {"text": "Snow on the pass. Winter tyres on the bicycle, and no regrets."},
     [("ben", "I regret it for you.")]),
    (1, "ben", PUBLIC, None, "status", {"text": "Sourdough no. 412. Still learning. Crumb like a cathedral."},
     [("ada", "Keep one for Thursday?"), ("ben", "Two."), ("grace", "Three.")]),
]  # fmt: skip


Profiles = Mapping[str, tuple[str, str, str]]
Circled = Sequence[tuple[str, str, str]]
Posts = Sequence[tuple[float, str, str, str | None, str, dict[str, str], list[tuple[str, str]]]]


class _PastClock:
    """A clock that can be set to a number of hours before the time at which it was made."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._at = now

    def __call__(self) -> datetime:
        return self._at

    def set_back(self, hours: float) -> None:
        self._at = self._now - timedelta(hours=hours)


def demo(db: Db) -> None:
    """Create demo members, circles, posts and comments. All writes are idempotent: a second call changes nothing.

    Atomic: each member, edge, post and comment by itself.
    After a crash: the next call continues.
    """
    load_people(db, utcnow(), PEOPLE, CIRCLED, POSTS)


def load_people(db: Db, now: datetime, people: Profiles, circled: Circled, posts: Posts) -> None:
    """Create members `demo-...`, who joined before the oldest post, and all that they have written until now.

    Atomic: each member, edge, post and comment by itself.
    After a crash: the next call continues.
    """
    clock = _PastClock(now)
    network = Network(db, clock=clock)
    clock.set_back(max((post[0] for post in posts), default=0) + 30)
    for user, (name, about, place) in people.items():
        with suppress(AlreadyJoined):
            network.join(name, user=f"demo-{user}")
        network.edit_profile(f"demo-{user}", {"about": about, "place": place})
    for me, other, circle in circled:
        network.circle(f"demo-{me}", f"demo-{other}", circle)
    for number, (hours, by, circle, to, kind, detail, comments) in enumerate(posts):
        clock.set_back(hours)
        wall = None if to is None else f"demo-{to}"
        once = Key(f"post {number}", "social demo")
        post = network.post(f"demo-{by}", kind, detail, [circle], wall, key=once)["id"]
        for later, (author, text) in enumerate(comments, 1):
            clock.set_back(max(0.0, hours - later * min(hours / 8, 2.7)))
            once = Key(f"comment {number} {later}", "social demo")
            network.comment(f"demo-{author}", post, text, key=once)
    network.deliver()
