"""Worlds of CircleMUD and its kin: rooms, mobiles, objects, shops, and the zones that say what stands where."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from squinney.game.documents import REGIONS
from squinney.game.loading.blueprint import Blueprint
from squinney.game.loading.circle_lines import BadLine, Lines, bits, leading_numbers, whole

DIRECTIONS = "neswud"
ORDER = (".wld", ".obj", ".mob", ".shp", ".zon")  # what others refer to comes first
WEAPON, ARMOR, POTION, WORN, CONTAINER, FOOD, MONEY = 5, 9, 10, 11, 15, 19, 20
FEET, HANDS, HEAD = 1 << 6, 1 << 7, 1 << 4
TAKE = 1
START = "3001"  # where these servers let newcomers begin
SENTINEL = 1 << 1
STACKED_GOODS = 20
NEW_SHOPS = "v3.0"  # in the first line of newer files
IN_OLD_SHOP = 5  # numbers in each list of an older one, -1 for none
DICE = re.compile(r"(\d{1,6})[dD](\d{1,6})(?:\+?(-?\d{1,6}))?")
LONGEST = {"name": 100, "name of a mobile": 50, "description": 4_000}


def read(files: Sequence[tuple[str, str]]) -> Blueprint:
    """The blueprint of the files, given by name and text; what cannot be read is told by its line."""
    reader = _Reader()
    for ending in ORDER:
        for name, text in files:
            if name.endswith(ending):
                reader.read(ending, Lines(name, text))
    reader.furnish()
    return reader.plan


class _Reader:
    """Keeps kinds of mobiles and objects apart from those that zones put into the world."""

    def __init__(self) -> None:
        self.plan = Blueprint(name="CircleMUD")
        self._objects: dict[int, dict[str, Any]] = {}
        self._mobiles: dict[int, dict[str, Any]] = {}
        self._shops: dict[int, dict[str, Any]] = {}
        self._made: Counter[str] = Counter()
        self._names: Counter[str] = Counter()
        self._last_mobile = ""
        self._last_object: dict[int, str] = {}
        self._has_old_shops = False

    def read(self, ending: str, lines: Lines) -> None:
        record = {
            ".wld": self._room,
            ".obj": self._object,
            ".mob": self._mobile,
            ".shp": self._shop,
            ".zon": self._zone,
        }[ending]
        self._has_old_shops = NEW_SHOPS not in lines.peek()
        while not lines.at_end and not lines.is_over:
            if lines.peek().startswith("#"):
                self._try(lines, record)
            elif (line := lines.line()).strip() and not lines.file.endswith(".shp") and not _is_script(line):
                self.plan.tell(lines.file, lines.number, "a record begins with # and its number")
                lines.to_next_record()

    def _try(self, lines: Lines, record: Callable[[Lines, int], None]) -> None:
        try:
            record(lines, whole(lines.line().lstrip("#").rstrip("~").strip()))
        except BadLine as error:
            self.plan.tell(lines.file, lines.number, str(error))
            lines.to_next_record()

    def _cut(self, lines: Lines, what: str, text: str) -> str:
        if len(text) > LONGEST[what]:
            self.plan.tell(lines.file, lines.number, f"a {what} of {len(text)} characters is cut to {LONGEST[what]}")
        return text[: LONGEST[what]]

    # ---- rooms ----

    def _room(self, lines: Lines, number: int) -> None:
        room: dict[str, Any] = {"name": self._cut(lines, "name", lines.text())}
        room["description"] = self._cut(lines, "description", lines.text())
        room["exits"] = {}
        lines.words(3)
        room_id = str(number)
        if room_id in self.plan.rooms:
            raise BadLine(f"there are two rooms {number}")
        self.plan.lines[room_id] = (lines.file, lines.number)
        self.plan.rooms[room_id] = room
        while (line := lines.filled()) != "S":
            if line[0] == "D" and line[1:].strip().isdigit():
                self._exit(lines, room, whole(line[1:]))
            elif line == "E":
                lines.text()
                lines.text()
            elif not _is_script(line):
                raise BadLine(f"{line[:40]!r} is not understood in a room")
        self.plan.start = self.plan.start or room_id

    def _exit(self, lines: Lines, room: dict[str, Any], direction: int) -> None:
        lines.text()
        lines.text()
        target = whole(lines.words(3)[2])
        if direction >= len(DIRECTIONS):
            self.plan.tell(lines.file, lines.number, f"there is no direction {direction}")
        elif target >= 0:  # -1 is a door to look at, which leads nowhere
            room["exits"][DIRECTIONS[direction]] = str(target)

    # ---- objects ----

    def _object(self, lines: Lines, number: int) -> None:
        aliases, short, long = lines.text(), lines.text(), lines.text()
        lines.text()
        head = lines.words(3)
        # Between type and wear flags there may be one set of extra flags, or four.
        kind, wear = whole(head[0]), bits(head[2] if len(head) < 9 else head[5])
        values = [whole(word) for word in lines.words(4)[:4]]
        weight, price = (max(0, whole(word)) for word in lines.words(2)[:2])
        name = self._cut(lines, "name", short or aliases or f"object {number}")
        made: dict[str, Any] = {"name": name, "description": long[:2_000]}
        made.update(weight=min(weight, 10**6), price=min(price, 10**9), **_of_kind(kind, wear, values))
        made["takes"] = bool(wear & TAKE)
        if number in self._objects:
            raise BadLine(f"there are two objects {number}")
        self._objects[number] = made
        self._skip_extras(lines)

    def _skip_extras(self, lines: Lines) -> None:
        while not lines.at_record:
            line = lines.line().strip()
            if line == "E":
                lines.text()
                lines.text()
            elif line == "A":
                lines.words(2)
            elif line and line[0] not in "TL":
                raise BadLine(f"{line[:40]!r} is not understood in an object")

    # ---- mobiles ----

    def _mobile(self, lines: Lines, number: int) -> None:
        aliases, short = lines.text(), lines.text()
        lines.text()
        lines.text()
        wanders = not bits(lines.words(3)[0]) & SENTINEL
        fight = lines.words(3)
        health = _dice(fight[3]) if len(fight) > 3 else 1
        gold = whole(lines.words(1)[0])
        lines.words(1)
        if number in self._mobiles:
            raise BadLine(f"there are two mobiles {number}")
        self._mobiles[number] = {
            "name": self._cut(lines, "name of a mobile", short or aliases or f"mobile {number}"),
            "gold": min(max(0, gold), 10**9),
            "health": min(max(1, health), 10_000),
            "wanders": wanders,
        }
        lines.to_next_record()

    # ---- shops ----

    def _shop(self, lines: Lines, number: int) -> None:
        goods = self._numbers(lines)
        asks, pays = (_percent(lines.filled()) for _ in range(2))
        self._pass_wanted_types(lines)
        for _ in range(7):
            lines.text()
        lines.filled()
        lines.filled()
        keeper = whole(lines.filled().split()[0])
        self._shops[keeper] = {"goods": goods, "shop": {"sells_at": asks, "buys_at": pays}}
        self.plan.lines[f"shop of {keeper}"] = (lines.file, lines.number)
        lines.to_next_record()

    def _pass_wanted_types(self, lines: Lines) -> None:
        if self._has_old_shops:
            self._numbers(lines)
            return
        while not lines.filled().startswith("-1"):
            pass

    def _numbers(self, lines: Lines) -> list[int]:
        if self._has_old_shops:
            return [number for _ in range(IN_OLD_SHOP) if (number := whole(lines.filled().split()[0])) > 0]
        found = []
        while (number := whole(lines.filled().split()[0])) != -1:
            found.append(number)
        return found

    # ---- zones ----

    def _zone(self, lines: Lines, number: int) -> None:
        while len(leading_numbers(lines.peek().split())) < 2:  # newer ones name their builders first
            self.plan.name = lines.text() or self.plan.name
        lines.words(3)
        while (line := lines.filled()) not in ("S", "$"):
            if line[0] != "*":
                self._reset(lines, line.split())

    def _reset(self, lines: Lines, words: list[str]) -> None:
        """One thing that the zone puts into the world; a bad one does not spoil the next."""
        try:
            numbers = leading_numbers(words[1:])
            if words[0] == "M":
                self._place_mobile(lines, numbers[1], str(numbers[3]))
            elif words[0] == "O":
                self._place_object(lines, numbers[1], {"location": str(numbers[3])})
            elif words[0] in ("G", "E"):
                self._equip(lines, numbers[1])
            elif words[0] == "P":
                self._fill(lines, numbers[1], numbers[3])
            elif words[0] not in ("D", "R", "T", "V"):
                raise BadLine(f"{words[0][:40]!r} is no command of a zone")
        except IndexError:
            self.plan.tell(lines.file, lines.number, f"{words[0][:40]} has too few values")
        except BadLine as error:
            self.plan.tell(lines.file, lines.number, str(error))

    def _place_mobile(self, lines: Lines, number: int, room: str) -> None:
        kind = self._mobiles.get(number)
        self._last_mobile = ""
        if kind is None:
            raise BadLine(f"there is no mobile {number}")
        person_id = self._id("mob", number)
        name = kind["name"]
        self._names[name.casefold()] += 1
        if (count := self._names[name.casefold()]) > 1:
            name = f"{name} ({count})"
        made = {"name": name, "gold": kind["gold"], "health": kind["health"], "location": room, "kind": "monster"}
        shop = self._shops.get(number)
        self.plan.people[person_id] = (
            {**made, "kind": "shopkeeper", "shop": shop["shop"]} if shop else {**made, "wanders": kind["wanders"]}
        )
        self.plan.lines[person_id] = (lines.file, lines.number)
        self._last_mobile = person_id
        for good in shop["goods"] if shop else ():
            try:
                self._place_object(lines, good, {"character": person_id}, goods=True)
            except BadLine as error:
                self.plan.tell(lines.file, lines.number, str(error))

    def _equip(self, lines: Lines, number: int) -> None:
        if not self._last_mobile:
            raise BadLine("nobody is there to get it")
        self._place_object(lines, number, {"character": self._last_mobile})

    def _fill(self, lines: Lines, number: int, container: int) -> None:
        if container not in self._last_object:
            raise BadLine(f"object {container} stands nowhere yet")
        self._place_object(lines, number, {"container": self._last_object[container]})

    def _place_object(self, lines: Lines, number: int, place: dict[str, str], *, goods: bool = False) -> None:
        kind = self._objects.get(number)
        if kind is None:
            raise BadLine(f"there is no object {number}")
        if not kind["takes"] and kind["kind"] != "container" and "location" in place:
            return self._describe(kind, place)  # a fountain, a statue: part of the room
        thing_id = self._id("obj", number)
        made = {name: value for name, value in kind.items() if name != "takes"}
        if goods and made["kind"] in ("thing", "potion"):
            made["qty"] = STACKED_GOODS
        self.plan.things[thing_id] = {**made, **place}
        self.plan.lines[thing_id] = (lines.file, lines.number)
        self._last_object[number] = thing_id
        return None

    def _describe(self, kind: dict[str, Any], place: dict[str, str]) -> None:
        room = self.plan.rooms.get(place.get("location", ""))
        if room is not None and kind["description"] and len(room["description"]) < 3_000:
            room["description"] = f"{room['description']} {kind['description'][:900]}".strip()

    def _id(self, kind: str, number: int) -> str:
        name = f"{kind}/{number}"
        self._made[name] += 1
        return f"{name}/{self._made[name]}"

    def furnish(self) -> None:
        """All files are read: tell of what refers to nothing."""
        if START in self.plan.rooms:
            self.plan.start = START
        for keeper in self._shops.keys() - self._mobiles.keys():
            self.plan.tell_of(f"shop of {keeper}", f"the keeper of a shop is mobile {keeper}, which is not there")
        self.plan.check_references()


def _of_kind(kind: int, wear: int, values: list[int]) -> dict[str, Any]:
    if kind == WEAPON:
        return {"kind": "weapon", "bonus": min(max(0, values[1] * (values[2] + 1) // 2), 1_000)}
    if kind == CONTAINER:
        return {"kind": "container", "capacity": min(max(1, values[0]), 10**6)}
    if kind == POTION:
        return {"kind": "potion", "heals": min(max(1, values[0]), 1_000)}
    if kind in (ARMOR, WORN):
        flags = {"head": HEAD, "hands": HANDS, "feet": FEET}
        region = next((name for name in REGIONS if wear & flags.get(name, 0)), "body")
        return {"kind": "armor", "region": region, "bonus": min(max(0, values[0] if kind == ARMOR else 0), 1_000)}
    return {"kind": "thing"}


def _dice(word: str) -> int:
    """The middle of `3d8+20`."""
    if (found := DICE.fullmatch(word)) is None:
        raise BadLine(f"{word[:40]!r} is no dice")
    count, sides, more = (int(part or 0) for part in found.groups())
    return count * (sides + 1) // 2 + more


def _is_script(line: str) -> bool:
    """`T 105`: rooms have them before their end, or after it."""
    return line[:1] == "T" and line[1:].strip().isdigit()


def _percent(word: str) -> int:
    try:
        return min(max(0, round(float(word) * 100)), 10_000)
    except (ValueError, OverflowError):
        raise BadLine(f"{word[:40]!r} is no rate") from None
