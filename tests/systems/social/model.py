"""What everybody may see, by the rules alone: plain lists and sets, which know nothing of how it is done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

PUBLIC, CIRCLES = "*public*", "*circles*"


@dataclass
class Written:
    """A post; `at` is the number of the change that made it."""

    id: str
    by: str
    to: str | None
    circles: list[str]
    at: int
    comments: list[tuple[str, str]] = field(default_factory=list)


class Model:
    """Each change has a number; a relation remembers with which it began."""

    def __init__(self) -> None:
        self.now = 0
        self.here: set[str] = set()
        self.names: dict[str, str] = {}
        self.members: dict[tuple[str, str], dict[str, int]] = {}  # (owner, other): circle -> since when
        self.since: dict[tuple[str, str], int] = {}  # (owner, other): since when in any circle
        self.blocks: set[tuple[str, str]] = set()
        self.mutes: set[tuple[str, str]] = set()
        self.posts: list[Written] = []
        self.seen: dict[str, int] = {}  # when they last looked at their notices
        self.erased: set[str] = set()
        self.told: list[tuple[str, str, str, str, int]] = []  # reader, kind, by, post or comment, when

    def tick(self) -> int:
        self.now += 1
        return self.now

    def circle(self, me: str, other: str, name: str) -> None:
        mine = self.members.setdefault((me, other), {})
        if name in mine:
            return
        now = self.tick()
        if not mine:
            self.since[me, other] = now
            self.told.append((other, "circled", me, "", now))
        mine[name] = now

    def uncircle(self, me: str, other: str, name: str) -> None:
        mine = self.members.get((me, other), {})
        mine.pop(name, None)
        if not mine:
            self.since.pop((me, other), None)

    def circles_of(self, me: str) -> set[str]:
        return {name for (owner, _), names in self.members.items() if owner == me for name in names}

    def apart(self, one: str, two: str) -> bool:
        return (one, two) in self.blocks or (two, one) in self.blocks

    def shows(self, viewer: str | None, person: str) -> bool:
        return person in self.here and (viewer is None or not self.apart(viewer, person))

    def sees(self, viewer: str | None, post: Written) -> bool:
        if not self.shows(viewer, post.by):
            return False
        if post.circles == [PUBLIC] or (viewer is not None and viewer in (post.by, post.to)):
            return True
        if viewer is None:
            return False
        names = self.members.get((post.by, viewer), {})
        return bool(names) if post.circles == [CIRCLES] else any(name in names for name in post.circles)

    def news(self, me: str) -> list[str]:
        return [post.id for post in reversed(self.posts) if self._is_news(me, post)]

    def _is_news(self, me: str, post: Written) -> bool:
        if me == post.by or (me, post.by) in self.mutes or not self.sees(me, post):
            return False
        if post.circles == [PUBLIC]:
            begun = [self.since.get((me, post.by))]
        elif post.circles == [CIRCLES]:
            begun = [self.since.get((post.by, me))]
        else:
            begun = [self.members.get((post.by, me), {}).get(name) for name in post.circles]
        return any(at is not None and at < post.at for at in begun)

    def wall(self, viewer: str | None, owner: str) -> list[str]:
        if not self.shows(viewer, owner):
            return []
        found = [post for post in reversed(self.posts) if owner in (post.by, post.to) and self.sees(viewer, post)]
        if viewer == owner:
            found = [post for post in found if post.by == owner or (owner, post.by) in self.since]
        return [post.id for post in found]

    def incoming(self, me: str) -> list[str]:
        return [post.id for post in reversed(self.posts) if post.to == me and self.sees(me, post)]

    def comments(self, viewer: str | None, post: Written) -> list[str]:
        return [comment for comment, by in post.comments if self.shows(viewer, by)]

    def notices(self, me: str) -> list[tuple[str, str]]:
        return [(kind, by) for kind, by, _ in self.told_to(me)]

    def unseen(self, me: str) -> int:
        return sum(at > self.seen.get(me, 0) for _, _, at in self.told_to(me))

    def followers(self, me: str) -> int:
        return sum(other == me and owner in self.here for owner, other in self.since)

    def sizes(self, me: str) -> dict[str, int]:
        here = [names for (owner, other), names in self.members.items() if owner == me and other in self.here]
        return dict(Counter(name for names in here for name in names))

    def forget(self, erased: str) -> None:
        for post in self.posts:
            post.comments = [one for one in post.comments if one[1] != erased]

    def tell(self, reader: str, kind: str, by: str, post: Written, at: int) -> None:
        if self.shows(reader, by) and (reader, by) not in self.mutes and self.sees(reader, post):
            self.told.append((reader, kind, by, post.id, at))

    def told_to(self, me: str) -> list[tuple[str, str, int]]:
        found = []
        for reader, kind, by, about, at in reversed(self.told):
            if reader != me or not self.shows(me, by) or (me, by) in self.mutes:
                continue
            if kind == "circled":
                if self.since.get((by, me)) == at:
                    found.append((kind, by, at))
                continue
            post = next((one for one in self.posts if one.id == about), None)
            if post and self.sees(me, post):
                found.append((kind, by, at))
        return found
