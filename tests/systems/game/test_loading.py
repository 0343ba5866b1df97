"""Load worlds from files: our own format, and CircleMUD's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sizes import IN_FULL, heavy
from tests.systems.game.circle_world import ROOMS_IN_ZONE, write_world

from squinney.errors import Invalid
from squinney.game import World, find_problems
from squinney.game.demo import demo
from squinney.game.loading import read_world, yaml_and_json
from squinney.game.loading.insert_rooms import MAX_IN_ROOM
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing.server_commands import watched

ROOMS = """\
#100
The Gate~
   Two towers,
and a gate.
~
1 d 1
D0
A road.
~
~
0 -1 101
D1
~
door gate~
1 -1 999
D2
~
wall~
1 -1 -1
E
towers tower~
Old ones.
~
S
#101
The Road~
Dust.
~
1 0 2
D2
~
~
0 -1 100
T 105
S
#102
A broken room~
No tilde follows
#103
The Shop~
Shelves.
~
1 0 0 0 0 0
Q
S
$
"""
OBJECTS = """\
#200
sword long~
a long sword~
A long sword lies here.~
~
5 0 an
0 1 8 3
10 600 10
E
sword~
Sharp.
~
A
18 2
#201
bag~
a bag~
A bag.~
~
15 0 a
40 0 -1 0
1 5 1
#202
cap~
a leather cap~
A cap.~
~
9 0 ae 0
3 0 0 0
1 4 1
#203
fountain~
a fountain~
A fountain bubbles here.~
~
23 0 0
0 0 0 0
0 0 0
#204
potion~
a red potion~
A potion.~
~
10 g a
12 -1 -1 -1
1 40 1
#205
broken~
a broken thing~
It has no numbers.~
~
x y z
$
"""
MOBILES = """\
#300
guard~
the guard~
A guard.
~
He looks at you.
~
bg 0 900 S
10 10 2 1d12+123 1d8+3
500 9000
8 8 1
#301
baker~
the baker~
The baker.
~
~
ag 0 900 E
5 15 5 3d8+10 1d8
60 100
8 8 1
BareHandAttack: 4
E
#302
rat~
a rat~
A rat.
~
~
0 0 0 S
1 20 9 1d4+1 1d2
0 1
8 8 0
$
"""
SHOPS = """\
CircleMUD v3.0 Shop File~
#301~
204
202
-1
1.25
0.4
19
-1
No such item.~
You have none.~
I do not buy that.~
I am poor.~
You are poor.~
%s, please.~
Here are %s.~
0
0
301
0
101
-1
0
28
0
0
$~
"""
ZONES = """\
#1
A small zone~
100 199 30 2
* what stands where
M 0 300 1 100
E 1 200 1 16
M 0 301 1 101
M 0 302 9 100
M 0 302 9 101
M 0 777 1 100
O 0 201 1 100
P 1 202 1 201
O 0 203 1 101
O 0 204 1 555
G 1
D 0 100 1 1
X 0 1 1
S
$
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"wld": ROOMS, "obj": OBJECTS, "mob": MOBILES, "shp": SHOPS, "zon": ZONES}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"1.{name}").write_text(text)
    return tmp_path


@pytest.fixture
def empty_world(game_db: Db) -> World:
    return World(game_db)


def test_a_circle_world_is_made_with_a_report_by_line(empty_world: World, game_db: Db, folder: Path) -> None:
    report = empty_world.load_world(folder)
    assert (report.name, report.start) == ("A small zone", "100")
    assert (report.rooms, report.people, report.things) == (3, 4, 5)
    assert [str(one) for one in report.unread] == [
        "1.wld:38: the text that starts in line 38 has no ~ at its end",
        "1.wld:44: unknown line 'Q' in a room",
        "1.obj:52: 'x' is not a number",
        "1.zon:10: mobile 777 is not defined",
        "1.zon:15: G has too few values",
        "1.zon:17: 'X' is not a zone command",
        "1.wld:6: the exit e of room 100 leads to 999, which is not a room",
        "1.zon:14: obj/204/2 is in 555, which does not exist",
    ]
    gate = empty_world.location("100")
    assert (gate["name"], gate["description"]) == ("The Gate", "Two towers, and a gate.")
    assert gate["exits"] == {"n": "101", "e": "999"}
    assert empty_world.location("101")["description"] == "Dust. A fountain bubbles here."
    guard = empty_world.named("the guard")
    assert (guard["gold"], guard["character"]["health"]) == (500, 129)
    assert [entry["name"] for entry in guard["inventory"]] == ["a long sword"]
    baker = empty_world.named("the baker")
    assert (baker["kind"], baker["shop"]) == ("shopkeeper", {"sells_at": 125, "buys_at": 40})
    assert {good["name"]: good["cost"] for good in empty_world.goods(baker["_id"])} == {
        "a red potion": 50,
        "a leather cap": 5,
    }
    assert [character["_id"] for character in game_db["game.characters"].find({"wanders": True})] == [
        "mob/302/1",
        "mob/302/2",
    ]
    assert empty_world.named("a rat (2)")["location"]["id"] == "101"
    assert not list(find_problems(game_db))


def test_a_loaded_world_can_be_played(empty_world: World, game_db: Db, folder: Path) -> None:
    empty_world.load_world(folder)
    empty_world.create_character("Ann", id="ann", location="100")
    bag = next(entry for entry in empty_world.look("ann")["inventory"] if entry["name"] == "a bag")
    (cap,) = empty_world.contents("ann", bag["id"])
    empty_world.take_out("ann", bag["id"], cap["id"])
    empty_world.wear("ann", cap["id"])
    empty_world.move("ann", "n")
    assert empty_world.armor("ann")["head"][0]["described"] == "+3 a leather cap"
    again = empty_world.load_world(folder)
    assert (again.rooms, again.things, again.already_there) == (0, 0, 3)
    assert not list(find_problems(game_db))


def test_our_own_format_makes_rooms_with_all_that_is_in_them(empty_world: World, game_db: Db, tmp_path: Path) -> None:
    sack = {"name": "sack", "kind": "container", "capacity": 3, "things": [{"name": "gem"}, {"name": "gem"}]}
    full: dict[str, Any] = {
        "name": "box",
        "kind": "container",
        "capacity": 1,
        "things": [{"name": "rock", "weight": 9}],
    }
    rooms: dict[str, Any] = {
        "hall": {"description": "A hall.", "exits": {"n": "moon"}, "things": [sack, full, {"name": "x", "wings": 2}]},
        "bad": {"colour": "red"},
    }
    people = {"mo": {"room": "hall", "gold": 9, "things": [{"name": "rope"}]}, "no": {"room": "mars"}}
    file = tmp_path / "world.json"
    file.write_text(json.dumps({"name": "Small", "start": "hall", "rooms": rooms, "people": people, "magic": 1}))
    report = empty_world.load_world(file)
    assert (report.rooms, report.people, report.things) == (1, 1, 4)
    assert [one.what for one in report.unread] == [
        "unknown field `magic`",
        "thing hall/2 has unknown fields: wings",
        "room bad has unknown fields: colour",
        "the exit n of room hall leads to moon, which is not a room",
        "no is in mars, which is not a room",
        "hall/1: box holds 1, not 9",
    ]
    assert not list(find_problems(game_db))


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", "{"), ("a.json", "[]"), ("a.yaml", "a: ["), ("a.txt", ""), ("none.json", None)]
)
def test_a_file_that_is_no_world_is_refused(tmp_path: Path, name: str, text: str | None) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(Invalid) as refused:
        read_world(tmp_path / name)
    assert refused.value.details["field"] == "file"


@pytest.mark.parametrize(
    "damage", ["", "#", "#x\n", "#1\nname~\n", "$", "~\n~\n", "#1\n" * 50, "\x00\xff#9999999999999~"]
)
@pytest.mark.parametrize("ending", ["wld", "obj", "mob", "shp", "zon"])
def test_damaged_files_give_no_rooms_and_are_read_to_the_end(tmp_path: Path, ending: str, damage: str) -> None:
    (tmp_path / f"a.{ending}").write_text(damage, encoding="latin-1")
    blueprint = read_world(tmp_path / f"a.{ending}")
    assert not blueprint.rooms
    assert not blueprint.people


ROOM = "#1\nRoom~\nText.\n~\n0 0 0\n{}\nS\n$~\n"
OBJECT = "#1\na~\nb~\nc~\n~\n5 0 {}\n1 1 1 1\n1 1 1\n$~\n"
MOBILE = "#1\na~\nb~\nc~\nd~\n{}\n1 1 1 1d1+1 1d1\n1 1\n8 8 1\n$~\n"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.wld", ROOM.format("D\xb2"), "a.wld:6: '\xb2' is not a number"),
        ("a.wld", ROOM.format("D" + "1" * 5_000), f"a.wld:6: '{'1' * 40}' is not a number"),
        ("a.obj", OBJECT.format("--5"), "a.obj:6: '--5' is not a number"),
        ("a.obj", OBJECT.format("\xb3"), "a.obj:6: '\xb3' is not a number"),
        ("a.mob", MOBILE.format("9" * 5_000 + " 0 0 S"), f"a.mob:6: '{'9' * 40}' is not a number"),
        ("a.wld", ROOM.replace("Text", "Wait\x85 and\x0cread").format("X"), "a.wld:6: unknown line 'X' in a room"),
        ("a.obj", OBJECT.format("0").replace("$~\n", "") * 2, "a.obj:16: object 1 is defined twice"),
        ("a.mob", MOBILE.format("0 0 0 S").replace("$~\n", "") * 2, "a.mob:18: mobile 1 is defined twice"),
    ],
)
def test_an_unreadable_line_is_reported_with_its_number(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text, encoding="latin-1")
    assert [str(one) for one in read_world(tmp_path / name).unread] == [problem]


def test_a_byte_order_mark_hides_no_room(tmp_path: Path) -> None:
    (tmp_path / "a.wld").write_text(ROOM.format(""), encoding="utf-8-sig")
    assert list(read_world(tmp_path / "a.wld").rooms) == ["1"]


def test_a_shop_in_the_old_format_sells_the_goods_that_are_defined(tmp_path: Path) -> None:
    said = "".join(f"%s Words {number}.~\n" for number in range(7))
    lists = "7\n1\n-1\n-1\n-1\n1.2\n0.8\n5\n9\n10\n19\n15\n"
    for name, text in {
        "wld": ROOM.format(""),
        "obj": OBJECT.format("a"),
        "mob": MOBILE.format("0 0 0 S"),
        "shp": f"#1~\n{lists}{said}0\n2\n1\n0\n1\n0\n28\n0\n0\n#2~\n{lists}{said}0\n2\n9\n0\n1\n0\n28\n0\n0\n$~\n",
        "zon": "#0\nA zone~\n99 15 2\nM 0 1 1 1\nS\n$\n",
    }.items():
        (tmp_path / f"a.{name}").write_text(text)
    blueprint = read_world(tmp_path)
    assert blueprint.people["mob/1/1"]["shop"] == {"sells_at": 120, "buys_at": 80}
    assert [(thing["character"], thing["name"]) for thing in blueprint.things.values()] == [("mob/1/1", "b")]
    assert [str(one) for one in blueprint.unread] == [
        "a.zon:4: object 7 is not defined",
        "a.shp:52: the keeper of a shop is mobile 9, which is not defined",
    ]


def test_a_mobile_gets_what_players_may_not_take(tmp_path: Path) -> None:
    zone = "#0\nA zone~\n99 15 2\nM 0 1 1 1\nE 1 1 1 16\nO 0 1 1 1\nS\n$\n"
    files = {"wld": ROOM.format(""), "obj": OBJECT.format("n"), "mob": MOBILE.format("0 0 0 S"), "zon": zone}
    for name, text in files.items():
        (tmp_path / f"a.{name}").write_text(text)
    blueprint = read_world(tmp_path)
    assert [thing["character"] for thing in blueprint.things.values()] == ["mob/1/1"]
    assert blueprint.rooms["1"]["description"] == "Text. c"


def test_values_of_the_wrong_type_in_our_own_format_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("rooms: {r: {things: {name: rope}, exits: [n, s]}}\npeople: [a, b]\n")
    assert [one.what for one in read_world(tmp_path / "a.yaml").unread] == [
        "exits of r must be a mapping",
        "things of r must be a list",
        "people must be a mapping",
    ]


def test_aliases_that_expand_to_thousands_of_things_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_and_json, "MAX_THINGS", 100)
    bags = "".join(f"- &b{n} {{name: bag, kind: container, things: [{f'*b{n - 1}, ' * 8}]}}\n" for n in range(1, 5))
    (tmp_path / "a.yaml").write_text(f"spare:\n- &b0 {{name: bead}}\n{bags}rooms: {{r: {{things: [*b4]}}}}\n")
    with pytest.raises(Invalid, match="more than 100 things"):
        read_world(tmp_path / "a.yaml")


@heavy
@pytest.mark.timeout(600)
def test_a_world_of_thousands_of_rooms_loads_and_reports_every_planted_error(
    empty_world: World, game_db: Db, tmp_path: Path
) -> None:
    zones = 100 if IN_FULL else 3
    planted = write_world(tmp_path, zones)
    assert sorted(str(one) for one in read_world(tmp_path).unread) == sorted(planted)
    report = empty_world.load_world(tmp_path)
    assert (report.rooms, report.people) == (zones * (ROOMS_IN_ZONE - 1), zones * 4)
    assert report.problems == len(planted)
    known = {room["_id"]: room for room in game_db["game.locations"].find()}
    nowhere = [to for room in known.values() for to in room["exits"].values() if to not in known]
    assert len(nowhere) == sum("leads to" in one for one in planted)
    keeper = empty_world.named("folk 101")
    assert {good["name"]: good["cost"] for good in empty_world.goods(keeper["_id"])} == {
        "thing 104": 36,
        "thing 100": 36,
    }
    assert [one["name"] for one in empty_world.named("folk 200")["inventory"]] == ["thing 200", "thing 202"]
    assert empty_world.named("folk 200")["character"]["health"] == 4
    assert "It lies here." in known["107"]["description"]
    assert "$ is no end here." in known["107"]["description"]
    if not IN_FULL:
        assert not list(find_problems(game_db))


def test_a_room_with_too_much_in_it_is_reported_and_the_others_are_created(empty_world: World, tmp_path: Path) -> None:
    heap = {"name": "Heap", "things": [{"name": "bead"}] * (MAX_IN_ROOM + 1)}
    file = tmp_path / "heap.json"
    file.write_text(json.dumps({"rooms": {"heap": heap, "yard": {"name": "Yard"}}}))
    report = empty_world.load_world(file)
    assert (report.rooms, report.things) == (1, 0)
    assert "5001 things are too many for one room; the limit is 5000" in report.unread[0].what


def test_a_name_that_is_taken_is_reported_and_the_others_are_created(empty_world: World, tmp_path: Path) -> None:
    empty_world.create_location("hall", description="A hall.")
    empty_world.create_character("Mo", location="hall")
    people = {"mo": {"name": "MO"}, "flo": {"name": "Flo"}, "another": {"name": "flo"}, "long": {"name": "x" * 61}}
    file = tmp_path / "people.json"
    file.write_text(json.dumps({"start": "yard", "rooms": {"yard": {}}, "people": people}))
    report = empty_world.load_world(file)
    assert report.people == 1
    assert sorted(one.what for one in report.unread) == [
        "another: another character is called flo",
        "long: name must have 1 to 60 characters, not 61",
        "mo: another character is called MO",
    ]


def test_many_rooms_are_inserted_with_few_commands(mongod: Embedded, game_db: Db, tmp_path: Path) -> None:
    counts = []
    with watched(mongod.uri, game_db.name) as (db, commands):
        for first, count in ((0, 5), (5, 60)):
            numbers = range(first, first + count)
            people = {f"p{number}": {"name": f"P {number}", "room": f"r{number}"} for number in numbers}
            file = tmp_path / "many.json"
            file.write_text(json.dumps({"rooms": {f"r{number}": {} for number in numbers}, "people": people}))
            before = len(commands.names)
            assert World(db).load_world(file).people == count
            counts.append(len(commands.names) - before)
    assert counts[1] < 60, "one command for each room would be more; the server may have a transaction retried"


def test_the_demo_is_a_whole_world(game_db: Db, empty_world: World) -> None:
    demo(game_db)
    demo(game_db)
    rooms = empty_world.locations(limit=200).items
    assert len(rooms) >= 24
    known = {room["_id"] for room in rooms}
    assert all(set(room["exits"].values()) <= known for room in rooms)
    assert not list(find_problems(game_db))
    empty_world.create_character("Ann", id="ann", location="jetty", gold=20)
    for direction in "nw":
        empty_world.move("ann", direction)
    lantern = next(good for good in empty_world.goods("pell") if good["name"] == "lantern")
    empty_world.buy("ann", "pell", lantern["id"])
    assert empty_world.character("ann")["gold"] == 8
