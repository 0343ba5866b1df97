"""The actions of characters, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from squinney.clock import utcnow
from squinney.errors import Conflict, Invalid, LimitReached
from squinney.game import (
    IntoItself,
    InUse,
    NameTaken,
    NoExit,
    NoSpace,
    NotEnoughGold,
    NotForSale,
    NotMadeForThat,
    OutOfReach,
    TooFast,
    TooHeavy,
    UnknownCharacter,
    UnknownLocation,
    UnknownThing,
    World,
    find_problems,
)
from squinney.mongo.schema import Db
from squinney.transactions import Key, KeyReused


def ids(entries: Any) -> list[str]:
    return [entry["id"] for entry in entries]


def everything(db: Db) -> dict[str, Any]:
    return {
        name: {one["_id"]: one for one in db[name].find()}
        for name in ("game.characters", "game.items", "game.locations", "game.names", "game.events")
    }


def test_a_character_who_moves_is_in_the_new_room_only(world: World, game_db: Db) -> None:
    event = world.move("ann", "n")
    assert (event["kind"], event["location_id"]) == ("arrived", "yard")
    ann = world.character("ann")
    assert (ann["location"]["id"], ann["location"]["description"]) == ("yard", "A yard.")
    assert ids(world.location("hall")["players"]) == ["bob"]
    assert ids(world.look("ann")["players"]) == ["ann"]
    assert [room["_id"] for room in world.map_of("ann")] == ["hall", "yard"]
    assert next(one["kind"] for one in world.recent("hall")) == "left"
    assert not list(find_problems(game_db))


def test_a_move_through_a_missing_exit_or_to_a_missing_room_is_refused(world: World, game_db: Db) -> None:
    before = everything(game_db)
    with pytest.raises(NoExit, match="no way leads west"):
        world.move("ann", "w")
    with pytest.raises(NoExit, match="leads nowhere"):
        world.move("ann", "e")
    with pytest.raises(UnknownCharacter):
        world.move("nobody", "n")
    assert everything(game_db) == before


def test_a_thing_is_listed_by_its_holder_only(world: World, game_db: Db) -> None:
    lamp = world.create_item("lamp", location="hall", weight=3)["_id"]
    assert ids(world.look("ann")["inventory"]) == [lamp]
    assert world.pick_up("ann", lamp)["text"] == "Ann takes lamp"
    assert ids(world.inventory("ann")) == [lamp]
    assert world.look("ann")["inventory"] == []
    with pytest.raises(OutOfReach):
        world.pick_up("bob", lamp)
    world.give("ann", "bob", lamp)
    assert world.item(lamp)["holder"] == {"kind": "character", "id": "bob"}
    world.move("bob", "n")
    world.drop("bob", lamp)
    assert ids(world.location("yard")["inventory"]) == [lamp]
    assert (world.character("ann")["load"], world.character("bob")["load"]) == (0, 0)
    assert not list(find_problems(game_db))


def test_a_thing_that_another_character_carries_cannot_be_used(world: World, game_db: Db) -> None:
    world.create_item("tea", id="tea", kind="potion", character="ann")
    world.create_item("sack", id="sack", kind="container", character="bob")
    for act in (
        lambda: world.drop("bob", "tea"),
        lambda: world.give("bob", "ann", "tea"),
        lambda: world.put_in("bob", "sack", "tea"),
        lambda: world.use("bob", "tea"),
        lambda: world.pick_up("bob", "tea"),
    ):
        with pytest.raises(OutOfReach):
            act()
    assert world.item("tea")["holder"] == {"kind": "character", "id": "ann"}
    assert not list(find_problems(game_db))


def test_stacks_split_and_merge_without_losing_pieces(world: World, game_db: Db) -> None:
    arrows = world.create_item("arrow", location="hall", qty=20, weight=1)["_id"]
    world.pick_up("ann", arrows, 5)
    world.pick_up("ann", arrows, 3)
    (carried,) = world.inventory("ann")
    assert (carried["qty"], carried["weight"]) == (8, 8)
    assert world.look("ann")["inventory"][0]["qty"] == 12
    made = world.split("ann", carried["id"], 2)["other_id"]
    assert sorted(entry["qty"] for entry in world.inventory("ann")) == [2, 6]
    world.stack("ann", made, carried["id"])
    assert [entry["qty"] for entry in world.inventory("ann")] == [8]
    world.pick_up("ann", arrows)
    assert [entry["qty"] for entry in world.inventory("ann")] == [20]
    with pytest.raises(Invalid, match="there are 20"):
        world.drop("ann", carried["id"], 21)
    assert sum(item["qty"] for item in game_db["game.items"].find()) == 20
    assert not list(find_problems(game_db))


def test_containers_nest_and_weigh_as_much_as_their_contents(world: World, game_db: Db) -> None:
    sack = world.create_item("sack", kind="container", character="ann", weight=1, capacity=50)["_id"]
    pouch = world.create_item("pouch", kind="container", container=sack, weight=1, capacity=10)["_id"]
    gem = world.create_item("gem", character="ann", weight=2)["_id"]
    world.put_in("ann", pouch, gem)
    (listed,) = world.inventory("ann")
    assert (listed["weight"], listed["inventory"][0]["inventory"][0]["id"]) == (4, gem)
    assert world.character("ann")["load"] == 4
    world.drop("ann", sack)
    assert world.look("ann")["inventory"][0]["weight"] == 4
    world.take_out("bob", pouch, gem)
    assert world.look("ann")["inventory"][0]["weight"] == 2
    assert (ids(world.inventory("bob")), world.contents("ann", pouch)) == ([gem], [])
    world.pick_up("ann", sack)
    assert ids(world.contents("ann", sack)) == [pouch]
    with pytest.raises(OutOfReach):
        world.take_out("bob", sack, pouch)
    assert not list(find_problems(game_db))


def test_a_container_cannot_be_put_into_itself_or_into_its_contents(world: World, game_db: Db) -> None:
    sack = world.create_item("sack", kind="container", character="ann")["_id"]
    box = world.create_item("box", kind="container", container=sack)["_id"]
    before = everything(game_db)
    with pytest.raises(IntoItself):
        world.put_in("ann", sack, sack)
    with pytest.raises(IntoItself):
        world.put_in("ann", box, sack)
    assert everything(game_db) == before


def test_bags_have_limits(world: World, game_db: Db) -> None:
    bags = [world.create_item(f"bag {n}", kind="container", character="ann", capacity=9)["_id"] for n in range(4)]
    world.put_in("ann", bags[0], bags[1])
    world.put_in("ann", bags[1], bags[2])
    before = everything(game_db)
    with pytest.raises(NoSpace, match="3 deep"):
        world.put_in("ann", bags[2], bags[3])
    anvil = world.create_item("anvil", character="ann", weight=12)["_id"]
    with pytest.raises(TooHeavy, match="bag 0 holds 9"):
        world.put_in("ann", bags[0], anvil)
    with pytest.raises(NotMadeForThat, match="holds nothing"):
        world.put_in("ann", anvil, bags[3])
    world.drop("ann", anvil)
    assert ids(world.inventory("ann")) == ids(before["game.characters"]["ann"]["inventory"])


def test_a_character_carries_no_more_than_the_strength_allows(world: World) -> None:
    world.create_character("Cid", id="cid", location="hall", intrinsics={"strength": 2})
    bar = world.create_item("bar", location="hall", weight=20)["_id"]
    other = world.create_item("bar", location="hall", weight=20)["_id"]
    world.pick_up("cid", bar)
    with pytest.raises(TooHeavy, match="Cid can carry 30, and would carry 40") as refused:
        world.pick_up("cid", other)
    assert isinstance(refused.value, LimitReached)
    world.pick_up("ann", other)
    with pytest.raises(TooHeavy):
        world.give("ann", "cid", other)


def test_armor_and_weapons_come_described(world: World, game_db: Db) -> None:
    hat = world.create_item("wizard's hat", kind="armor", region="head", bonus=3, character="ann")["_id"]
    cap = world.create_item("cap", kind="armor", region="head", character="ann")["_id"]
    shirt = world.create_item("shirt", kind="armor", character="ann")["_id"]
    coat = world.create_item("coat", kind="armor", character="ann")["_id"]
    sword = world.create_item("sword", kind="weapon", character="ann")["_id"]
    bow = world.create_item("bow", kind="weapon", hands=2, character="ann")["_id"]
    for worn in (hat, shirt, coat):
        world.wear("ann", worn)
    world.wield("ann", sword, "left")
    armor = world.armor("ann")
    assert [one["described"] for one in armor["head"]] == ["+3 wizard's hat"]
    assert [one["described"] for one in armor["body"]] == ["shirt", "coat"]
    assert (armor["feet"], armor["hands"]) == ([], [])
    assert world.weapons("ann")["left"]["described"] == "sword"
    assert world.weapons("ann")["right"] is None
    for refused in (
        lambda: world.wear("ann", cap),
        lambda: world.wear("ann", shirt),
        lambda: world.wield("ann", bow),
        lambda: world.wield("ann", sword, "right"),
        lambda: world.drop("ann", hat),
        lambda: world.give("ann", "bob", sword),
    ):
        with pytest.raises(InUse):
            refused()
    with pytest.raises(NotMadeForThat):
        world.wear("ann", sword)
    with pytest.raises(NotMadeForThat):
        world.wield("ann", hat)
    world.remove("ann", sword)
    world.wield("ann", bow)
    assert world.weapons("ann")["both"]["described"] == "bow"
    assert not list(find_problems(game_db))


def test_a_potion_heals_once(world: World, game_db: Db) -> None:
    potions = world.create_item("potion", kind="potion", heals=7, qty=2, character="ann")["_id"]
    world.adjust("ann", health=-15, intrinsics={"strength": 90})
    assert world.character("ann")["character"]["health"] == 5
    assert world.character("ann")["character"]["intrinsics"]["strength"] == 25
    world.use("ann", potions)
    world.use("ann", potions)
    assert world.character("ann")["character"]["health"] == 19
    assert world.inventory("ann") == []
    with pytest.raises(UnknownThing):
        world.use("ann", potions)
    assert not list(find_problems(game_db))


def shop(world: World) -> str:
    return world.create_character("Mo", kind="shopkeeper", location="hall", gold=5, shop={"sells_at": 150})["_id"]


def test_gold_and_goods_change_hands_together(world: World, game_db: Db) -> None:
    keeper = shop(world)
    rope = world.create_item("rope", character=keeper, price=15, qty=3)["_id"]
    assert [good["cost"] for good in world.goods(keeper)] == [23]
    assert world.buy("ann", keeper, rope, 2)["text"] == "Ann buys 2 × rope for 45 gold"
    assert (world.character("ann")["gold"], world.character(keeper)["gold"]) == (55, 50)
    (bought,) = world.inventory("ann")
    world.sell("ann", keeper, bought["id"])
    assert (world.character("ann")["gold"], world.character(keeper)["gold"]) == (62, 43)
    assert world.gold() == 125
    assert not list(find_problems(game_db))


def test_an_impossible_trade_is_refused_and_changes_nothing(world: World, game_db: Db) -> None:
    keeper = shop(world)
    crown = world.create_item("crown", character=keeper, price=1_000)["_id"]
    ring = world.create_item("ring", character="bob", price=400)["_id"]
    before = everything(game_db)
    refusals: list[tuple[type[Conflict], Callable[[], object]]] = [
        (NotEnoughGold, lambda: world.buy("ann", keeper, crown)),
        (NotEnoughGold, lambda: world.sell("bob", keeper, ring)),
        (NotForSale, lambda: world.buy("ann", keeper, ring)),
        (NotForSale, lambda: world.buy("ann", "bob", ring)),
        (OutOfReach, lambda: world.sell("ann", keeper, ring)),
    ]
    for error, act in refusals:
        with pytest.raises(error):
            act()
    assert everything(game_db) == before
    world.move("ann", "n")
    with pytest.raises(OutOfReach, match="Mo is not here"):
        world.buy("ann", keeper, crown)


def test_an_action_sent_twice_happens_once(world: World, game_db: Db) -> None:
    coins = world.create_item("coin", location="hall", qty=10)["_id"]
    first = world.pick_up("ann", coins, 2, key=Key("k", "ann"))
    assert world.pick_up("ann", coins, 2, key=Key("k", "ann")) == first
    assert world.inventory("ann")[0]["qty"] == 2
    with pytest.raises(KeyReused):
        world.pick_up("ann", coins, 3, key=Key("k", "ann"))
    world.move("ann", "n", key="m")
    world.move("ann", "n", key="m")
    assert world.character("ann")["location"]["id"] == "yard"
    assert not list(find_problems(game_db))


def test_a_name_belongs_to_one_character(world: World, game_db: Db) -> None:
    with pytest.raises(NameTaken):
        world.create_character("ANN", location="hall")
    assert world.named("aNn")["_id"] == "ann"
    assert game_db["game.characters"].count_documents({}) == 2
    with pytest.raises(UnknownLocation):
        world.create_character("Eve", location="nowhere")
    with pytest.raises(UnknownCharacter):
        world.named("eve")


@pytest.mark.parametrize(
    "name",
    [
        *("Ann\u200b", "\u202eAnn", "A\x1b[2Jn", "A\nn", " Ann", ""),
        *("Ann\u3164", "\u2800Ann", "An\u034fn", "An\u00adn", "Ann\ufe0f", "An\u0336n", "An\u00a0n", "\u3000"),
    ],
)
def test_a_name_with_invisible_characters_is_refused(world: World, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        world.create_character(name, location="hall")
    assert refused.value.details["field"] == "name"


def test_saying_something_is_an_event_in_the_room(world: World) -> None:
    world.say("ann", "hello <b>")
    assert world.recent("hall")[0]["text"] == "hello <b>"
    with pytest.raises(Invalid):
        world.say("ann", "")


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("qty", {"qty": 0}),
        ("qty", {"kind": "weapon", "qty": 2}),
        ("region", {"kind": "armor", "region": "tail"}),
        ("hands", {"heals": 1, "hands": 1}),
        ("kind", {"kind": "dragon"}),
        ("weight", {"weight": 1.5}),
        ("location", {"location": "hall", "character": "ann"}),
    ],
)
def test_a_wrong_thing_is_refused_with_its_field(world: World, field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        world.create_item("thing", **wrong)
    assert refused.value.details["field"] == field


def test_a_players_acts_per_minute_are_limited_across_processes(game_db: Db) -> None:
    now = [utcnow()]
    one, other = (World(game_db, clock=lambda: now[0], acts_per_minute=12) for _ in range(2))
    one.create_location("hall", description="d", exits={"n": "hall"})
    one.create_character("Ann", id="ann", location="hall")
    one.create_character("Rat", id="rat", location="hall", kind="monster")
    one.say("ann", "one")
    other.say("ann", "two")  # each counts for five
    one.move("ann", "n")
    other.move("ann", "n")
    for act in (lambda: one.move("ann", "n"), lambda: other.say("ann", "three")):
        with pytest.raises(TooFast, match="out of breath; wait 60 s") as refused:
            act()
    assert (refused.value.details["limit"], refused.value.details["retry_after_seconds"]) == (12, 60)
    for _ in range(13):
        one.move("rat", "n")
    now[0] += timedelta(minutes=1)
    other.say("ann", "three")
    assert [event["text"] for event in one.recent("hall", limit=50) if event["kind"] == "said"] == [
        "three",
        "two",
        "one",
    ]


def test_a_name_does_not_mix_scripts(world: World) -> None:
    for name in ("\u0410nn", "B\u03bfb", "P\u0430yPal"):
        with pytest.raises(Invalid, match="several scripts"):
            world.create_character(name, location="hall")
    cyrillic, japanese, arabic = (
        "\u0411\u043e\u0440\u0438\u0441",
        "\u7530\u4e2d\u3055\u3093",
        "\u0645\u0631\u064a\u0645",
    )
    for name in (cyrillic, japanese, arabic, "Zo\u00eb O'Neil-2"):
        assert world.create_character(name, location="hall")["name"] == name


def test_names_that_look_alike_are_one_name(world: World) -> None:
    cop = world.create_character("Cop", location="hall")
    for name in ("\u0421\u043e\u0440", "\uff23\uff4f\uff50", "COP"):  # Cyrillic, full width, capitals
        with pytest.raises(NameTaken):
            world.create_character(name, location="hall")
        assert world.named(name)["_id"] == cop["_id"]
    oneil = world.create_character("O'Neil-Roe", location="hall")
    for name in ("O\u2019Neil-Roe", "O`Neil\u2010Roe", "O'\u0274eil\u2011Roe", "O'N\u212eil-Roe"):
        with pytest.raises(NameTaken):
            world.create_character(name, location="hall")
        assert world.named(name)["_id"] == oneil["_id"]
    assert world.create_character("\uff21da  B", location="hall")["name"] == "Ada  B"
    with pytest.raises(NameTaken):
        world.create_character("Ada B", location="hall")


def test_a_character_named_by_an_older_version_keeps_its_name(world: World, game_db: Db) -> None:
    boris = world.create_character("\u0411\u043e\u0440", location="hall")
    game_db["game.names"].delete_many({"character_id": boris["_id"]})
    game_db["game.names"].insert_one({"_id": boris["name"].casefold(), "character_id": boris["_id"]})
    assert world.named("\u0411\u041e\u0420")["_id"] == boris["_id"]
    assert list(find_problems(game_db)) == []


def test_no_document_has_a_count_of_checks(world: World, game_db: Db) -> None:
    """They are returned as they are stored; every action changes each document that it checks."""
    world.create_character("Mo", id="mo", location="hall", kind="shopkeeper")
    world.create_item("bag", id="bag", kind="container", location="hall", price=5)
    world.create_item("coin", id="coin", location="hall", qty=5)
    world.create_item("hat", id="hat", kind="armor", region="head", character="ann")
    world.pick_up("ann", "coin")
    world.pick_up("ann", "bag")
    world.put_in("ann", "bag", "coin")
    world.take_out("ann", "bag", "coin", 1)
    world.wear("ann", "hat")
    world.remove("ann", "hat")
    world.give("ann", "bob", "hat")
    world.say("bob", "thanks")
    world.adjust("bob", health=0)
    world.set_exits("hall", {"n": "yard"})
    world.move("bob", "n")
    assert "txn" not in str(everything(game_db))
