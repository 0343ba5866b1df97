"""Compares the network with a plain model: reads show only what the model allows, and after delivery all of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.plugins.shelf import Shelf
from tests.sizes import a_tenth_of, heavy
from tests.systems.social.conftest import ALL_COLLECTIONS, Ticking
from tests.systems.social.model import CIRCLES, PUBLIC, Model, Written

from squinney.social import Blocked, Network, UnknownPost, UnknownUser, find_problems
from squinney.social.jobs import remove_outdated_entries

PEOPLE = ["ann", "bob", "cid", "dot"]
WHO = st.sampled_from(PEOPLE)
NAMES = st.sampled_from(["friends", "a.b $c"])
PICK = st.integers(0, 50)


class Social(RuleBasedStateMachine):
    """Random histories of four members. Posts by authors with more than one follower are merged, not delivered."""

    shelf: Callable[[], Shelf]

    @initialize()
    def begin(self) -> None:
        self.db = self.shelf().take(ALL_COLLECTIONS)
        self.clock = Ticking()
        self.network = Network(self.db, clock=self.clock, merge_above=1, settle_seconds=0)
        self.model = Model()
        self.checks = 0
        for person in PEOPLE:
            self.network.join(person.title(), user=person)
            self.model.members.add(person)
            self.model.names[person] = person.title()

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.shelf().put_back(self.db)

    def are_members(self, *people: str) -> bool:
        """Return whether these are different people who are members; otherwise the network must refuse."""
        return len(set(people)) == len(people) and set(people) <= self.model.members

    # ---- changes ----

    @rule(me=WHO, other=WHO, name=NAMES)
    def circle(self, me: str, other: str, name: str) -> None:
        if me == other:
            return
        if me not in self.model.members or self.model.looks_unknown(me, other):
            with pytest.raises(UnknownUser):
                self.network.circle(me, other, name)
        elif self.model.is_blocked(me, other):
            with pytest.raises(Blocked):
                self.network.circle(me, other, name)
        else:
            self.network.circle(me, other, name)
            self.model.circle(me, other, name)

    @rule(me=WHO, other=WHO, name=NAMES)
    def uncircle(self, me: str, other: str, name: str) -> None:
        if me != other and me in self.model.members:
            self.network.uncircle(me, other, name)
            self.model.uncircle(me, other, name)

    @rule(me=WHO, other=WHO)
    def block(self, me: str, other: str) -> None:
        if self.are_members(me, other):
            self.network.block(me, other)
            self.model.block(me, other)

    @rule(me=WHO, other=WHO)
    def unblock(self, me: str, other: str) -> None:
        if self.are_members(me, other):
            self.network.unblock(me, other)
            self.model.blocks.pop((me, other), None)

    @rule(me=WHO, other=WHO, on=st.booleans())
    def mute(self, me: str, other: str, on: bool) -> None:
        if self.are_members(me, other):
            (self.network.mute if on else self.network.unmute)(me, other)
            (self.model.mutes.add if on else self.model.mutes.discard)((me, other))

    @rule(me=WHO, wide=st.sampled_from([PUBLIC, CIRCLES, ""]), names=st.sets(NAMES, min_size=1), to=st.none() | WHO)
    def post(self, me: str, wide: str, names: set[str], to: str | None) -> None:
        circles = [wide] if wide else sorted(names & self.model.circles_of(me))
        if not circles or me == to or (to and self.model.is_blocked(me, to)):
            return
        if not self.are_members(me, *([to] if to else [])):
            with pytest.raises(UnknownUser):
                self.network.post(me, "status", {"text": "hello"}, circles, to)
            return
        text = "hello @bob" if me != "bob" else "hello"
        made = self.network.post(me, "status", {"text": text}, circles, to)
        at = self.model.tick()
        self.model.posts.append(Written(made["id"], me, to, circles, at))
        whom = ({"bob": "mention"} if me != "bob" else {}) | ({to: "wall"} if to else {})
        for one, kind in whom.items():
            self.model.notify(one, kind, me, self.model.posts[-1], at)

    def some_post(self, number: int) -> Written | None:
        return self.model.posts[number % len(self.model.posts)] if self.model.posts else None

    @rule(me=WHO, number=PICK)
    def comment(self, me: str, number: int) -> None:
        post = self.some_post(number)
        if post is None or me not in self.model.members:
            return
        if not self.model.may_see(me, post):
            with pytest.raises(UnknownPost):
                self.network.comment(me, post.id, "well")
            return
        post.comments.append((self.network.comment(me, post.id, "well"), me))
        at = self.model.tick()
        if me != post.by:
            self.model.notify(post.by, "comment", me, post, at)

    @rule(me=WHO, number=PICK)
    def delete_post(self, me: str, number: int) -> None:
        post = self.some_post(number)
        if post is None or me not in self.model.members:
            return
        if me not in (post.by, post.to):
            with pytest.raises(UnknownPost):
                self.network.delete_post(me, post.id)
            return
        self.network.delete_post(me, post.id)
        self.model.posts.remove(post)

    @rule(me=WHO, number=PICK)
    def delete_comment(self, me: str, number: int) -> None:
        post = self.some_post(number)
        if post is None or not post.comments or me not in self.model.members:
            return
        comment, by = post.comments[number % len(post.comments)]
        if me not in (by, post.by):
            with pytest.raises(UnknownPost):
                self.network.delete_comment(me, comment)
            return
        self.network.delete_comment(me, comment)
        nth = sum(one == by for _, one in post.comments[: post.comments.index((comment, by))])
        post.comments.remove((comment, by))
        sent = [one for one in self.model.sent if one[:4] == (post.by, "comment", by, post.id)]
        if sent:
            self.model.sent.remove(sent[nth])

    @rule(me=WHO, name=st.sampled_from(["Ann", "Änn $et", "x/y.z"]))
    def rename(self, me: str, name: str) -> None:
        if me in self.model.members:
            self.network.rename(me, name)
            self.model.names[me] = name

    @rule(me=st.sampled_from(["cid", "dot"]), erase=st.booleans(), sure=st.integers(0, 9))
    def leave(self, me: str, erase: bool, sure: int) -> None:
        if sure or me not in self.model.members:
            return
        (self.network.erase if erase else self.network.leave)(me)
        self.model.members.discard(me)
        if erase:
            self.model.erased.add(me)

    @rule(me=WHO)
    def see_notices(self, me: str) -> None:
        if me in self.model.members:
            self.network.see_notices(me)
            self.model.seen[me] = self.model.tick()

    @rule()
    def remove_outdated(self) -> None:
        remove_outdated_entries(self.db)

    @rule()
    def deliver(self) -> None:
        """After delivery, the news are complete, in order, and without duplicates."""
        self.network.deliver()
        for erased in self.model.erased:
            self.model.delete_comments_by(erased)
        for me in sorted(self.model.members):
            self.check_counts(me)
            assert self.all_ids(lambda cursor, me=me: self.network.news(me, cursor=cursor, limit=2)) == self.model.news(
                me
            )
        assert [str(problem) for problem in find_problems(self.db)] == []

    def check_counts(self, me: str) -> None:
        assert self.network.profile(None, me)["followers"] == self.model.followers(me)
        assert {circle["name"]: circle["count"] for circle in self.network.get(me)["circles"]} == self.model.sizes(me)

    # ---- invariants ----

    @staticmethod
    def all_ids(read: Callable[[str | None], Any]) -> list[str]:
        found, cursor = [], None
        while True:
            page = read(cursor)
            found += [item["id"] for item in page.items]
            cursor = page.next
            if cursor is None:
                return found

    @invariant()
    def a_viewer_sees_what_the_rules_allow(self) -> None:
        """After each change, the next viewer in turn reads everything."""
        if not hasattr(self, "db"):
            return
        self.checks += 1
        viewer = [None, *PEOPLE][self.checks % 5]
        if viewer is not None and viewer not in self.model.members:
            with pytest.raises(UnknownUser):
                self.network.news(viewer)
            return
        if viewer is not None:
            self.check_own_lists(viewer)
        for owner in sorted(self.model.members):
            if self.model.looks_unknown(viewer, owner):
                with pytest.raises(UnknownUser):
                    self.wall_of(viewer, owner, None)
                continue
            shown = self.all_ids(partial(self.wall_of, viewer, owner))
            assert shown == self.model.wall(viewer, owner)
        for post in self.model.posts[-3:]:
            self.check_post(viewer, post)

    def wall_of(self, viewer: str | None, owner: str, cursor: str | None) -> Any:
        return self.network.wall(viewer, owner, cursor=cursor, limit=4)

    def check_own_lists(self, me: str) -> None:
        news = self.all_ids(lambda cursor: self.network.news(me, cursor=cursor, limit=3))
        allowed = self.model.news(me)
        assert [post for post in allowed if post in set(news)] == news, (
            "a post is forbidden, duplicated or out of order"
        )
        assert self.all_ids(lambda cursor: self.network.incoming(me, cursor=cursor)) == self.model.incoming(me)
        found = [(item["kind"], item["by"]["id"]) for item in self.network.notices(me, limit=100).items]
        assert found == self.model.notices(me)
        assert self.network.unseen(me) == self.model.unseen(me)

    def check_post(self, viewer: str | None, post: Written) -> None:
        if not self.model.may_see(viewer, post):
            with pytest.raises(UnknownPost):
                self.network.get_post(viewer, post.id)
            return
        found = self.network.get_post(viewer, post.id)
        assert found["by"]["name"] == self.model.names[post.by]
        assert found["comment_count"] == len(post.comments)
        allowed = self.model.comments(viewer, post)
        assert [item["id"] for item in self.network.comments(viewer, post.id).items] == allowed
        assert [comment["id"] for comment in found["comments"]] == [
            one for one, _ in post.comments[-3:] if one in allowed
        ]


@heavy
@pytest.mark.timeout(600)
def test_no_read_shows_what_the_rules_forbid(shelf: Shelf) -> None:
    class OnServer(Social):
        """The machine with databases. `shelf` is a function, because Hypothesis inspects every attribute for marks."""

        shelf = staticmethod(lambda: shelf)  # type: ignore[assignment]

    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    most = a_tenth_of(100)
    limits = settings(max_examples=most, stateful_step_count=30, deadline=None, suppress_health_check=slow)
    run_state_machine_as_test(OnServer, settings=limits)
    print(f"{most} histories of up to 30 changes")
