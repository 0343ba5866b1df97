"""A model of the network in plain lists and sets: what every member may see according to the rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from squinney.social.rules import MAX_OLDER_POSTS

PUBLIC, CIRCLES = "*public*", "*circles*"


@dataclass
class Written:
    """A post; `at` is the number of the change that created it."""

    id: str
    by: str
    to: str | None
    circles: list[str]
    at: int
    comments: list[tuple[str, str]] = field(default_factory=list)


class Model:
    """The state of the network. Each change has a number, and each relation stores the number of its first change."""

    def __init__(self) -> None:
        self.now = 0
        self.members: set[str] = set()
        self.names: dict[str, str] = {}
        self.circled: dict[tuple[str, str], dict[str, int]] = {}  # (owner, other): circle -> first change
        self.follows: dict[tuple[str, str], int] = {}  # (owner, other): first change of any circle
        self.brought: dict[tuple[str, str], list[str]] = {}  # (owner, other): the older posts that the follow brought
        self.blocks: dict[tuple[str, str], int] = {}  # (who blocks, who is blocked): the change
        self.mutes: set[tuple[str, str]] = set()
        self.posts: list[Written] = []
        self.seen: dict[str, int] = {}  # the change of the last `see_notices`
        self.erased: set[str] = set()
        self.sent: list[tuple[str, str, str, str, int]] = []  # reader, kind, by, post, change

    def tick(self) -> int:
        self.now += 1
        return self.now

    def circle(self, me: str, other: str, name: str) -> None:
        mine = self.circled.setdefault((me, other), {})
        if name in mine:
            return
        now = self.tick()
        if not mine:
            self.follows[me, other] = now
            seen = [post.id for post in self.posts if post.by == other and self.may_see(me, post)]
            self.brought[me, other] = seen[-MAX_OLDER_POSTS:]
            self.sent.append((other, "circled", me, "", now))
        mine[name] = now

    def uncircle(self, me: str, other: str, name: str) -> None:
        mine = self.circled.get((me, other), {})
        mine.pop(name, None)
        if not mine:
            self.follows.pop((me, other), None)
            self.brought.pop((me, other), None)

    def block(self, me: str, other: str) -> None:
        if (me, other) in self.blocks:
            return
        self.blocks[me, other] = self.tick()
        for pair in ((me, other), (other, me)):
            self.circled.pop(pair, None)
            self.follows.pop(pair, None)
            self.brought.pop(pair, None)

    def looks_unknown(self, viewer: str | None, person: str) -> bool:
        """Return whether the person has left, or has blocked the viewer and was not blocked by the viewer before."""
        theirs, mine = self.blocks.get((person, viewer or "")), self.blocks.get((viewer or "", person))
        return person not in self.members or (theirs is not None and (mine is None or mine > theirs))

    def circles_of(self, me: str) -> set[str]:
        return {name for (owner, _), names in self.circled.items() if owner == me for name in names}

    def is_blocked(self, one: str, two: str) -> bool:
        return (one, two) in self.blocks or (two, one) in self.blocks

    def is_visible(self, viewer: str | None, person: str) -> bool:
        return person in self.members and (viewer is None or not self.is_blocked(viewer, person))

    def may_see(self, viewer: str | None, post: Written) -> bool:
        if not self.is_visible(viewer, post.by):
            return False
        if post.circles == [PUBLIC] or (viewer is not None and viewer in (post.by, post.to)):
            return True
        if viewer is None:
            return False
        names = self.circled.get((post.by, viewer), {})
        return bool(names) if post.circles == [CIRCLES] else any(name in names for name in post.circles)

    def news(self, me: str) -> list[str]:
        return [post.id for post in reversed(self.posts) if self._is_news(me, post)]

    def _is_news(self, me: str, post: Written) -> bool:
        if me == post.by or (me, post.by) in self.mutes or not self.may_see(me, post):
            return False
        if post.id in self.brought.get((me, post.by), ()):
            return True
        if post.circles == [PUBLIC]:
            since = [self.follows.get((me, post.by))]
        elif post.circles == [CIRCLES]:
            since = [self.follows.get((post.by, me))]
        else:
            since = [self.circled.get((post.by, me), {}).get(name) for name in post.circles]
        return any(at is not None and at < post.at for at in since)

    def wall(self, viewer: str | None, owner: str) -> list[str]:
        if not self.is_visible(viewer, owner):
            return []
        found = [post for post in reversed(self.posts) if owner in (post.by, post.to) and self.may_see(viewer, post)]
        if viewer == owner:
            found = [post for post in found if post.by == owner or (owner, post.by) in self.follows]
        return [post.id for post in found]

    def incoming(self, me: str) -> list[str]:
        return [post.id for post in reversed(self.posts) if post.to == me and self.may_see(me, post)]

    def comments(self, viewer: str | None, post: Written) -> list[str]:
        return [comment for comment, by in post.comments if self.is_visible(viewer, by)]

    def notices(self, me: str) -> list[tuple[str, str]]:
        return [(kind, by) for kind, by, _ in self.notices_for(me)]

    def unseen(self, me: str) -> int:
        return sum(at > self.seen.get(me, 0) for _, _, at in self.notices_for(me))

    def followers(self, me: str) -> int:
        return sum(other == me and owner in self.members for owner, other in self.follows)

    def sizes(self, me: str) -> dict[str, int]:
        here = [names for (owner, other), names in self.circled.items() if owner == me and other in self.members]
        return dict(Counter(name for names in here for name in names))

    def delete_comments_by(self, erased: str) -> None:
        for post in self.posts:
            post.comments = [comment for comment in post.comments if comment[1] != erased]

    def notify(self, reader: str, kind: str, by: str, post: Written, at: int) -> None:
        if self.is_visible(reader, by) and (reader, by) not in self.mutes and self.may_see(reader, post):
            self.sent.append((reader, kind, by, post.id, at))

    def notices_for(self, me: str) -> list[tuple[str, str, int]]:
        found = []
        for reader, kind, by, about, at in reversed(self.sent):
            if reader != me or not self.is_visible(me, by) or (me, by) in self.mutes:
                continue
            if kind == "circled":
                if self.follows.get((by, me)) == at:
                    found.append((kind, by, at))
                continue
            post = next((one for one in self.posts if one.id == about), None)
            if post and self.may_see(me, post):
                found.append((kind, by, at))
        return found
