"""A world in two processes, each with its cache, is compared with a simple model: after random actions they agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.plugins.shelf import Shelf
from tests.sizes import a_tenth_of, heavy
from tests.systems.game.conftest import ALL

from squinney.errors import Conflict, Invalid, LimitReached, NotFound, SquinneyError
from squinney.game import World, find_problems
from squinney.game.documents import MAX_CONTAINER_DEPTH

WORLDS = st.sampled_from([0, 1])  # as if in two processes: each has a cache of its own
PEOPLE = ["ann", "bob", "mo"]
ACTORS = st.sampled_from(["ann", "bob"])
THINGS = {
    "coins": ("thing", 1, 9),
    "sack": ("container", 2, 1),
    "box": ("container", 2, 1),
    "jar": ("container", 2, 1),
    "rock": ("thing", 60, 1),
    "hat": ("armor", 1, 1),
    "cap": ("armor", 1, 1),
}
ITEMS = st.sampled_from(list(THINGS))
EXITS = {"hall": {"n": "yard", "e": "nowhere"}, "yard": {"s": "hall"}}
CAPACITY, LIMIT, PRICE = 70, 150, 5


class Game(RuleBasedStateMachine):
    """The model: the room of each character, the holder of each thing, what is worn, and the gold."""

    shelf: Callable[[], Shelf]

    @initialize()
    def begin(self) -> None:
        self.db = self.shelf().take(ALL)
        self.worlds = [World(self.db), World(self.db)]
        world = self.worlds[0]
        for room, exits in EXITS.items():
            world.create_location(room, description="d", exits=exits)
        self.room = dict.fromkeys(PEOPLE, "hall")
        self.gold = {"ann": 12, "bob": 3, "mo": 4}
        for who in PEOPLE:
            kind = "shopkeeper" if who == "mo" else "player"
            shop = {"sells_at": 100, "buys_at": 100} if who == "mo" else None
            world.create_character(who, id=who, location="hall", gold=self.gold[who], kind=kind, shop=shop)
        self.holder_of = dict.fromkeys(THINGS, "hall")
        self.worn: dict[str, str] = {}
        for name, (kind, weight, qty) in THINGS.items():
            own: Any = {"region": "head"} if kind == "armor" else {"capacity": CAPACITY} if kind == "container" else {}
            world.create_item(name, id=name, kind=kind, location="hall", weight=weight, qty=qty, price=PRICE, **own)

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.shelf().put_back(self.db)

    # ---- the model's rules ----

    def inside(self, holder_id: str) -> list[str]:
        return [name for name, holder in self.holder_of.items() if holder == holder_id]

    def weight(self, name: str) -> int:
        _, weight, qty = THINGS[name]
        return weight * qty + sum(self.weight(one) for one in self.inside(name))

    def load(self, holder_id: str) -> int:
        return sum(self.weight(name) for name in self.inside(holder_id))

    def chain(self, container: str) -> list[str]:
        found = [container]
        while self.holder_of[found[-1]] in THINGS:
            found.append(self.holder_of[found[-1]])
        return found

    def height(self, name: str) -> int:
        if THINGS[name][0] != "container":
            return 0
        return 1 + max((self.height(one) for one in self.inside(name)), default=0)

    def reaches(self, who: str, container: str) -> bool:
        return self.holder_of[self.chain(container)[-1]] in (who, self.room[who])

    def carries_more(self, who: str, name: str) -> bool:
        return who == "mo" or self.load(who) + self.weight(name) <= LIMIT

    def do(self, allowed: bool, act: Callable[[], Any]) -> bool:
        if allowed:
            act()
            return True
        with pytest.raises((Conflict, Invalid, LimitReached, NotFound)) as refused:
            act()
        assert isinstance(refused.value, SquinneyError)
        assert refused.value.message
        return False

    # ---- what is done to either ----

    @rule(at=WORLDS, who=ACTORS, direction=st.sampled_from("nsew"))
    def move(self, at: int, who: str, direction: str) -> None:
        target = EXITS[self.room[who]].get(direction)
        if self.do(target in EXITS, lambda: self.worlds[at].move(who, direction)):
            self.room[who] = str(target)

    @rule(at=WORLDS, who=ACTORS, name=ITEMS)
    def pick_up(self, at: int, who: str, name: str) -> None:
        allowed = self.holder_of[name] == self.room[who] and self.carries_more(who, name)
        if self.do(allowed, lambda: self.worlds[at].pick_up(who, name)):
            self.holder_of[name] = who

    @rule(at=WORLDS, who=ACTORS, name=ITEMS)
    def drop(self, at: int, who: str, name: str) -> None:
        allowed = self.holder_of[name] == who and name not in self.worn
        if self.do(allowed, lambda: self.worlds[at].drop(who, name)):
            self.holder_of[name] = self.room[who]

    @rule(at=WORLDS, who=ACTORS, to=ACTORS, name=ITEMS)
    def give(self, at: int, who: str, to: str, name: str) -> None:
        mine = self.holder_of[name] == who and name not in self.worn
        allowed = mine and to != who and self.room[to] == self.room[who] and self.carries_more(to, name)
        if self.do(allowed, lambda: self.worlds[at].give(who, to, name)):
            self.holder_of[name] = to

    @rule(at=WORLDS, who=ACTORS, container=ITEMS, name=ITEMS)
    def put_in(self, at: int, who: str, container: str, name: str) -> None:
        chain = self.chain(container)
        fits = all(self.load(one) + self.weight(name) <= CAPACITY for one in chain)
        allowed = (
            self.holder_of[name] == who
            and name not in self.worn
            and THINGS[container][0] == "container"
            and self.reaches(who, container)
            and name not in chain
            and len(chain) + self.height(name) <= MAX_CONTAINER_DEPTH
            and fits
        )
        if self.do(allowed, lambda: self.worlds[at].put_in(who, container, name)):
            self.holder_of[name] = container

    @rule(at=WORLDS, who=ACTORS, container=ITEMS, name=ITEMS)
    def take_out(self, at: int, who: str, container: str, name: str) -> None:
        is_inside = self.holder_of[name] == container and self.reaches(who, container)
        mine = is_inside and self.holder_of[self.chain(container)[-1]] == who
        allowed = is_inside and (mine or self.carries_more(who, name))
        if self.do(allowed, lambda: self.worlds[at].take_out(who, container, name)):
            self.holder_of[name] = who

    @rule(at=WORLDS, who=ACTORS, name=ITEMS)
    def wear(self, at: int, who: str, name: str) -> None:
        free = who not in self.worn.values()
        allowed = self.holder_of[name] == who and THINGS[name][0] == "armor" and free
        if self.do(allowed, lambda: self.worlds[at].wear(who, name)):
            self.worn[name] = who

    @rule(at=WORLDS, who=ACTORS, name=ITEMS)
    def remove(self, at: int, who: str, name: str) -> None:
        if self.do(self.worn.get(name) == who, lambda: self.worlds[at].remove(who, name)):
            del self.worn[name]

    @rule(at=WORLDS, who=ACTORS, name=ITEMS)
    def sell(self, at: int, who: str, name: str) -> None:
        price = PRICE * THINGS[name][2]
        mine = self.holder_of[name] == who and name not in self.worn
        allowed = mine and self.room[who] == "hall" and self.gold["mo"] >= price
        if self.do(allowed, lambda: self.worlds[at].sell(who, "mo", name, THINGS[name][2])):
            self.holder_of[name] = "mo"
            self.gold[who] += price
            self.gold["mo"] -= price

    @rule(at=WORLDS, who=ACTORS, name=ITEMS)
    def buy(self, at: int, who: str, name: str) -> None:
        price = PRICE * THINGS[name][2]
        rich = self.gold[who] >= price and self.carries_more(who, name)
        allowed = self.holder_of[name] == "mo" and self.room[who] == "hall" and rich
        if self.do(allowed, lambda: self.worlds[at].buy(who, "mo", name, THINGS[name][2])):
            self.holder_of[name] = who
            self.gold[who] -= price
            self.gold["mo"] += price

    @rule(at=WORLDS, who=ACTORS)
    def split_and_stack(self, at: int, who: str) -> None:
        world = self.worlds[at]
        allowed = self.holder_of["coins"] == who
        made: list[str] = []
        if self.do(allowed, lambda: made.append(world.split(who, "coins", 4)["other_id"])):
            world.stack(who, made[0], "coins")

    # ---- what must be the same ----

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "worn"):
            return
        world = self.worlds[0]
        stored = {item["_id"]: item["holder"]["id"] for item in self.db["game.items"].find()}
        assert stored == self.holder_of
        for who in PEOPLE:
            character = world.character(who)
            assert (character["location"]["id"], character["gold"]) == (self.room[who], self.gold[who])
            assert sorted(entry["id"] for entry in character["inventory"]) == sorted(self.inside(who))
            assert character["load"] == self.load(who)
            assert [one["id"] for one in character["armor"]] == [name for name, by in self.worn.items() if by == who]
        for room in EXITS:
            listed = world.location(room)
            assert sorted(one["id"] for one in listed["inventory"]) == sorted(self.inside(room))
            assert sorted(player["id"] for player in listed["players"]) == sorted(
                w for w in PEOPLE if self.room[w] == room
            )
        assert [str(problem) for problem in find_problems(self.db)] == []


@heavy
@pytest.mark.timeout(600)
def test_the_world_and_its_model_agree(shelf: Shelf) -> None:
    class OnServer(Game):
        """The machine with its databases; `shelf` is a function, because Hypothesis inspects every attribute."""

        shelf = staticmethod(lambda: shelf)  # type: ignore[assignment]

    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    most = a_tenth_of(100)
    limits = settings(max_examples=most, stateful_step_count=25, deadline=None, suppress_health_check=slow)
    run_state_machine_as_test(OnServer, settings=limits)
