"""Concurrent actions of many characters, in threads and in processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import bson
import pytest
from tests.racing import at_once
from tests.sizes import IN_FULL, a_tenth_of, heavy

import squinney
from squinney.errors import Conflict, LimitReached, SquinneyError
from squinney.game import World, find_problems, proof
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db


@heavy
def test_of_fifty_characters_who_pick_up_one_lamp_one_gets_it(game_db: Db) -> None:
    count = max(8, a_tenth_of(50))
    world = World(game_db)
    world.create_location("hall", description="d")
    for number in range(count):
        world.create_character(f"c{number}", id=f"c{number}", location="hall")
    world.create_item("lamp", id="lamp", location="hall")

    def grab(number: int) -> bool:
        try:
            World(game_db).pick_up(f"c{number}", "lamp")
        except Conflict:
            return False
        return True

    won = at_once(count, grab)
    assert sum(won) == 1
    assert world.item("lamp")["holder"]["id"] == f"c{won.index(True)}"
    assert sum(len(world.inventory(f"c{number}")) for number in range(count)) == 1
    assert not list(find_problems(game_db))


def test_two_bags_never_end_up_in_each_other(game_db: Db) -> None:
    """One bag is put into a box inside the other bag, while the other bag is put into it."""
    world = World(game_db)
    world.create_location("hall", description="d")
    world.create_character("Ann", id="ann", location="hall")
    for turn in range(3):
        for name in ("a", "b"):
            world.create_item(name, id=f"{name}{turn}", kind="container", character="ann")
        world.create_item("box", id=f"box {turn}", kind="container", container=f"a{turn}")
        pairs = [(f"box {turn}", f"b{turn}"), (f"b{turn}", f"a{turn}")]

        def put(number: int, pairs: list[tuple[str, str]] = pairs) -> bool:
            with suppress(Conflict):
                World(game_db).put_in("ann", *pairs[number])
                return True
            return False

        assert sum(at_once(2, put)) == 1
    assert not list(find_problems(game_db))


def test_a_purse_is_not_spent_twice(game_db: Db) -> None:
    world = World(game_db)
    world.create_location("hall", description="d")
    world.create_character("Ann", id="ann", location="hall", gold=25)
    world.create_character("Mo", id="mo", location="hall", kind="shopkeeper")
    world.create_item("rope", id="rope", character="mo", price=10, qty=9)

    def buy(number: int) -> bool:
        with suppress(Conflict):
            World(game_db).buy("ann", "mo", "rope")
            return True
        return False

    assert sum(at_once(4, buy)) == 2
    assert (world.character("ann")["gold"], world.character("mo")["gold"]) == (5, 20)
    assert [entry["qty"] for entry in world.inventory("ann")] == [2]


def test_nobody_gets_more_characters_than_they_may_have(game_db: Db) -> None:
    world = World(game_db)
    world.create_location("start", description="a field")

    def make(number: int) -> bool:
        try:
            world.create_character(f"hero {number}", location="start", owner="ann", max_owned=3)
        except LimitReached:
            return False
        return True

    assert sorted(at_once(8, make)) == [False] * 5 + [True] * 3
    assert len(world.owned_by("ann").items) == 3
    with pytest.raises(LimitReached):
        world.create_character("one more", location="start", owner="ann", max_owned=3)
    assert list(find_problems(game_db)) == []


@heavy
@pytest.mark.timeout(900)
def test_in_a_crowded_room_everybody_gets_a_turn(game_db: Db) -> None:
    """No action is refused because of the crowd, and neither the room nor a copy of it outgrows its bounds."""
    count, hands = a_tenth_of(200), 8
    world = World(game_db)
    world.create_location("square", description="d")
    for number in range(count):
        world.create_character(f"c{number}", id=f"c{number}", location="square")
        world.create_item(f"lamp {number}", id=f"lamp {number}", location="square")

    def act(hand: int) -> int:
        own = World(game_db)
        for number in range(hand, count, hands):
            own.pick_up(f"c{number}", f"lamp {number}")
            own.say(f"c{number}", "mine")
            own.drop(f"c{number}", f"lamp {number}")
        return len(range(hand, count, hands))

    began = time.monotonic()
    assert sum(at_once(hands, act)) == count
    print(f"{count} in one room acted {3 * count} times in {time.monotonic() - began:.0f} s")
    room = world.location("square")
    assert (room["player_count"], room["thing_count"]) == (count, count)
    assert len(bson.encode(room)) < 20_000
    assert len(bson.encode(world.screen("c0"))) < 40_000
    assert not list(find_problems(game_db))


def _act_for_ever(uri: str, name: str, seed: int) -> None:
    with squinney.connect(uri, database=name) as connection:
        proof.work(connection.db, seed)


@pytest.fixture
def crowd(game_db: Db, mongod: Embedded) -> Iterator[Any]:
    """Return a function that starts a process with random actions; all of them are killed at the end."""
    spawn = multiprocessing.get_context("spawn")
    started: list[Any] = []

    def start(seed: int) -> Any:
        process = spawn.Process(target=_act_for_ever, args=(mongod.uri, game_db.name, seed), daemon=True)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()


@heavy
@pytest.mark.timeout(600)
def test_a_world_full_of_characters_with_kills_stays_whole(game_db: Db, crowd: Any) -> None:
    """At full size: 200 characters in 8 processes for two minutes, with a kill every six seconds. Otherwise two
    processes and one kill."""
    proof.prepare(game_db)
    processes, kills, least = (8, 20, 1_000) if IN_FULL else (2, 1, 10)
    running = [crowd(number) for number in range(processes)]
    chance = random.Random(1)
    for kill in range(kills):
        _play(game_db, seconds=6.0, actions=least * (kill + 1) // kills)
        victim = chance.randrange(processes)
        os.kill(running[victim].pid, signal.SIGKILL)
        running[victim] = crowd(100 + kill)
    _play(game_db, seconds=6.0, actions=2 * least)
    for process in running:
        process.kill()
        process.join()
    print(f"{proof.progress(game_db):,} actions acknowledged in {processes} processes, {kills} of them killed")
    _wait_until_settled(game_db)
    assert {promise: broken for promise, broken in proof.check(game_db).items() if broken} == {}


def _play(db: Db, *, seconds: float, actions: int) -> None:
    """Wait until `actions` were acknowledged, and at full size also for `seconds`.

    Meanwhile settle the transactions of killed processes, or all actions would soon wait for them.
    """
    began = time.monotonic()
    while proof.progress(db) < actions or (IN_FULL and time.monotonic() < began + seconds):
        assert time.monotonic() < began + 120, "the processes run no actions"
        proof.settle(db)
        time.sleep(0.5 if IN_FULL else 0.05)


def _wait_until_settled(db: Db) -> None:
    """Wait until the open transactions of the killed workers were ended."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        proof.settle(db)
        with suppress(SquinneyError):
            if not any(proof.check(db).values()):
                return
        time.sleep(0.2)
