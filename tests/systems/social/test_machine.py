"""The network beside a plain model: no read ever shows what the model forbids, and after delivery all it allows."""

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
from tests.systems.social.conftest import SETS, Ticking
from tests.systems.social.model import CIRCLES, PUBLIC, Model, Written

from squinney.social import Blocked, Network, UnknownPost, UnknownUser, find_problems
from squinney.social.jobs import sweep_entries

PEOPLE = ["ann", "bob", "cid", "dot"]
WHO = st.sampled_from(PEOPLE)
NAMES = st.sampled_from(["friends", "a.b $c"])
PICK = st.integers(0, 50)


class Social(RuleBasedStateMachine):
    """Four people, some of whom have many followers: for two of the authors that means more than one."""

    shelf: Callable[[], Shelf]

    @initialize()
    def begin(self) -> None:
        self.db = self.shelf().take(SETS)
        self.clock = Ticking()
        self.network = Network(self.db, clock=self.clock, merge_above=1, settle_seconds=0)
        self.model = Model()
        self.looks = 0
        for one in PEOPLE:
            self.network.join(one.title(), user=one)
            self.model.here.add(one)
            self.model.names[one] = one.title()

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.shelf().put_back(self.db)

    def able(self, *people: str) -> bool:
        """Whether they are two members; else the network must refuse."""
        return len(set(people)) == len(people) and set(people) <= self.model.here

    # ---- changes ----

    @rule(me=WHO, other=WHO, name=NAMES)
    def circle(self, me: str, other: str, name: str) -> None:
        if me == other:
            return
        if not self.able(me, other):
            with pytest.raises(UnknownUser):
                self.network.circle(me, other, name)
        elif self.model.apart(me, other):
            with pytest.raises(Blocked):
                self.network.circle(me, other, name)
        else:
            self.network.circle(me, other, name)
            self.model.circle(me, other, name)

    @rule(me=WHO, other=WHO, name=NAMES)
    def uncircle(self, me: str, other: str, name: str) -> None:
        if me != other and me in self.model.here:
            self.network.uncircle(me, other, name)
            self.model.uncircle(me, other, name)

    @rule(me=WHO, other=WHO)
    def block(self, me: str, other: str) -> None:
        if self.able(me, other):
            self.network.block(me, other)
            self.model.blocks.add((me, other))

    @rule(me=WHO, other=WHO)
    def unblock(self, me: str, other: str) -> None:
        if self.able(me, other):
            self.network.unblock(me, other)
            self.model.blocks.discard((me, other))

    @rule(me=WHO, other=WHO, on=st.booleans())
    def mute(self, me: str, other: str, on: bool) -> None:
        if self.able(me, other):
            (self.network.mute if on else self.network.unmute)(me, other)
            (self.model.mutes.add if on else self.model.mutes.discard)((me, other))

    @rule(me=WHO, wide=st.sampled_from([PUBLIC, CIRCLES, ""]), names=st.sets(NAMES, min_size=1), to=st.none() | WHO)
    def post(self, me: str, wide: str, names: set[str], to: str | None) -> None:
        circles = [wide] if wide else sorted(names & self.model.circles_of(me))
        if not circles or me == to or (to and self.model.apart(me, to)):
            return
        if not self.able(me, *([to] if to else [])):
            with pytest.raises(UnknownUser):
                self.network.post(me, "status", {"text": "hello"}, circles, to)
            return
        text = "hello @bob" if me != "bob" else "hello"
        made = self.network.post(me, "status", {"text": text}, circles, to)
        at = self.model.tick()
        self.model.posts.append(Written(made["id"], me, to, circles, at))
        whom = ({"bob": "mention"} if me != "bob" else {}) | ({to: "wall"} if to else {})
        for one, kind in whom.items():
            self.model.tell(one, kind, me, self.model.posts[-1], at)

    def picked(self, number: int) -> Written | None:
        return self.model.posts[number % len(self.model.posts)] if self.model.posts else None

    @rule(me=WHO, number=PICK)
    def comment(self, me: str, number: int) -> None:
        post = self.picked(number)
        if post is None or me not in self.model.here:
            return
        if not self.model.sees(me, post):
            with pytest.raises(UnknownPost):
                self.network.comment(me, post.id, "well")
            return
        post.comments.append((self.network.comment(me, post.id, "well"), me))
        at = self.model.tick()
        if me != post.by:
            self.model.tell(post.by, "comment", me, post, at)

    @rule(me=WHO, number=PICK)
    def delete_post(self, me: str, number: int) -> None:
        post = self.picked(number)
        if post is None or me not in self.model.here:
            return
        if me not in (post.by, post.to):
            with pytest.raises(UnknownPost):
                self.network.delete_post(me, post.id)
            return
        self.network.delete_post(me, post.id)
        self.model.posts.remove(post)

    @rule(me=WHO, number=PICK)
    def delete_comment(self, me: str, number: int) -> None:
        post = self.picked(number)
        if post is None or not post.comments or me not in self.model.here:
            return
        comment, by = post.comments[number % len(post.comments)]
        if me not in (by, post.by):
            with pytest.raises(UnknownPost):
                self.network.delete_comment(me, comment)
            return
        self.network.delete_comment(me, comment)
        nth = sum(one == by for _, one in post.comments[: post.comments.index((comment, by))])
        post.comments.remove((comment, by))
        told = [one for one in self.model.told if one[:4] == (post.by, "comment", by, post.id)]
        if told:
            self.model.told.remove(told[nth])

    @rule(me=WHO, name=st.sampled_from(["Ann", "Änn $et", "x/y.z"]))
    def rename(self, me: str, name: str) -> None:
        if me in self.model.here:
            self.network.rename(me, name)
            self.model.names[me] = name

    @rule(me=st.sampled_from(["cid", "dot"]), erase=st.booleans(), sure=st.integers(0, 9))
    def leave(self, me: str, erase: bool, sure: int) -> None:
        if sure or me not in self.model.here:
            return
        (self.network.erase if erase else self.network.leave)(me)
        self.model.here.discard(me)
        if erase:
            self.model.erased.add(me)

    @rule(me=WHO)
    def see_notices(self, me: str) -> None:
        if me in self.model.here:
            self.network.see_notices(me)
            self.model.seen[me] = self.model.tick()

    @rule()
    def sweep(self) -> None:
        sweep_entries(self.db)

    @rule()
    def deliver(self) -> None:
        """All of the news, in order, each once."""
        self.network.deliver()
        for erased in self.model.erased:
            self.model.forget(erased)
        for me in sorted(self.model.here):
            self.counts(me)
            assert self.walked(lambda cursor, me=me: self.network.news(me, cursor=cursor, limit=2)) == self.model.news(
                me
            )
        assert [str(problem) for problem in find_problems(self.db)] == []

    def counts(self, me: str) -> None:
        assert self.network.profile(None, me)["followers"] == self.model.followers(me)
        assert {one["name"]: one["count"] for one in self.network.get(me)["circles"]} == self.model.sizes(me)

    # ---- what holds at every moment ----

    @staticmethod
    def walked(read: Callable[[str | None], Any]) -> list[str]:
        found, cursor = [], None
        while True:
            page = read(cursor)
            found += [item["id"] for item in page.items]
            cursor = page.next
            if cursor is None:
                return found

    @invariant()
    def one_reader_sees_what_the_rules_allow(self) -> None:
        """After each change another one of them looks at everything."""
        if not hasattr(self, "db"):
            return
        self.looks += 1
        viewer = [None, *PEOPLE][self.looks % 5]
        if viewer is not None and viewer not in self.model.here:
            with pytest.raises(UnknownUser):
                self.network.news(viewer)
            return
        if viewer is not None:
            self.own_lists(viewer)
        for owner in sorted(self.model.here):
            found = self.walked(partial(self.wall_of, viewer, owner))
            assert found == self.model.wall(viewer, owner)
        for post in self.model.posts[-3:]:
            self.one_post(viewer, post)

    def wall_of(self, viewer: str | None, owner: str, cursor: str | None) -> Any:
        return self.network.wall(viewer, owner, cursor=cursor, limit=4)

    def own_lists(self, me: str) -> None:
        news = self.walked(lambda cursor: self.network.news(me, cursor=cursor, limit=3))
        allowed = self.model.news(me)
        assert [post for post in allowed if post in set(news)] == news, "too much, twice, or in another order"
        assert self.walked(lambda cursor: self.network.incoming(me, cursor=cursor)) == self.model.incoming(me)
        told = [(one["kind"], one["by"]["id"]) for one in self.network.notices(me, limit=100).items]
        assert told == self.model.notices(me)
        assert self.network.unseen(me) == self.model.unseen(me)

    def one_post(self, viewer: str | None, post: Written) -> None:
        if not self.model.sees(viewer, post):
            with pytest.raises(UnknownPost):
                self.network.get_post(viewer, post.id)
            return
        found = self.network.get_post(viewer, post.id)
        assert found["by"]["name"] == self.model.names[post.by]
        assert found["comment_count"] == len(post.comments)
        allowed = self.model.comments(viewer, post)
        assert [one["id"] for one in self.network.comments(viewer, post.id).items] == allowed
        assert [one["id"] for one in found["comments"]] == [one for one, _ in post.comments[-3:] if one in allowed]


@heavy
@pytest.mark.timeout(600)
def test_nobody_ever_sees_what_the_rules_forbid(shelf: Shelf) -> None:
    class OnServer(Social):
        """The machine with its databases; a function, since Hypothesis looks for marks on every attribute."""

        shelf = staticmethod(lambda: shelf)  # type: ignore[assignment]

    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    most = a_tenth_of(100)
    limits = settings(max_examples=most, stateful_step_count=30, deadline=None, suppress_health_check=slow)
    run_state_machine_as_test(OnServer, settings=limits)
    print(f"{most} histories of up to 30 changes")
