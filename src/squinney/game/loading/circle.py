"""Read worlds of CircleMUD and its relatives: rooms, mobiles, objects, shops, and the zones that fill rooms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from squinney.game.documents import REGIONS
from squinney.game.loading.blueprint import Blueprint
from squinney.game.loading.circle_lines import BadLine, Lines, flags, leading_numbers, to_number

DIRECTIONS = "neswud"
ORDER = (".wld", ".obj", ".mob", ".shp", ".zon")  # zones last: they refer to all the others
WEAPON, ARMOR, POTION, WORN, CONTAINER, FOOD, MONEY = 5, 9, 10, 11, 15, 19, 20
FEET, HANDS, HEAD = 1 << 6, 1 << 7, 1 << 4
TAKE = 1
START = "3001"  # the room in which these servers start new characters
SENTINEL = 1 << 1
STACKED_GOODS = 20
NEW_SHOPS = "v3.0"  # in the first line of newer shop files
IN_OLD_SHOP = 5  # numbers in each list of an older shop file; -1 for none
DICE = re.compile(r"(\d{1,6})[dD](\d{1,6})(?:\+?(-?\d{1,6}))?")
MAX_LENGTHS = {"name": 100, "name of a mobile": 50, "description": 4_000}


def read(files: Sequence[tuple[str, str]]) -> Blueprint:
    """Return the blueprint of files, given by name and text; lines that cannot be read are reported in it."""
    reader = _Reader()
    for ending in ORDER:
        for name, text in files:
            if name.endswith(ending):
                reader.read(ending, Lines(name, text))
    reader.finish()
    return reader.blueprint


class _Reader:
    """Reads files into a blueprint. Files of objects and mobiles define prototypes; zones put copies into rooms."""

    def __init__(self) -> None:
        self.blueprint = Blueprint(name="CircleMUD")
        self._objects: dict[int, dict[str, Any]] = {}
        self._mobiles: dict[int, dict[str, Any]] = {}
        self._shops: dict[int, dict[str, Any]] = {}
        self._copy_counts: Counter[str] = Counter()
        self._name_counts: Counter[str] = Counter()
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
                self._read_record(lines, record)
            elif (line := lines.line()).strip() and not lines.file.endswith(".shp") and not _is_script(line):
                self._add_problem(lines, "expected a record, which starts with # and its number")
                lines.to_next_record()

    def _read_record(self, lines: Lines, record: Callable[[Lines, int], None]) -> None:
        try:
            record(lines, to_number(lines.line().lstrip("#").rstrip("~").strip()))
        except BadLine as error:
            self._add_problem(lines, str(error))
            lines.to_next_record()

    def _add_problem(self, lines: Lines, what: str) -> None:
        self.blueprint.add_problem(lines.file, lines.number, what)

    def _truncated(self, lines: Lines, what: str, text: str) -> str:
        if len(text) > MAX_LENGTHS[what]:
            self._add_problem(lines, f"a {what} of {len(text)} characters is truncated to {MAX_LENGTHS[what]}")
        return text[: MAX_LENGTHS[what]]

    # ---- rooms ----

    def _room(self, lines: Lines, number: int) -> None:
        room: dict[str, Any] = {"name": self._truncated(lines, "name", lines.text())}
        room["description"] = self._truncated(lines, "description", lines.text())
        room["exits"] = {}
        lines.words(3)
        room_id = str(number)
        if room_id in self.blueprint.rooms:
            raise BadLine(f"room {number} is defined twice")
        self.blueprint.defined_at[room_id] = (lines.file, lines.number)
        self.blueprint.rooms[room_id] = room
        while (line := lines.nonempty()) != "S":
            if line[0] == "D" and line[1:].strip().isdigit():
                self._exit(lines, room, to_number(line[1:]))
            elif line == "E":
                lines.text()
                lines.text()
            elif not _is_script(line):
                raise BadLine(f"unknown line {line[:40]!r} in a room")
        self.blueprint.start = self.blueprint.start or room_id

    def _exit(self, lines: Lines, room: dict[str, Any], direction: int) -> None:
        lines.text()
        lines.text()
        target = to_number(lines.words(3)[2])
        if direction >= len(DIRECTIONS):
            self._add_problem(lines, f"unknown direction {direction}")
        elif target >= 0:  # -1 is a door that leads to no room
            room["exits"][DIRECTIONS[direction]] = str(target)

    # ---- objects ----

    def _object(self, lines: Lines, number: int) -> None:
        aliases, short, long = lines.text(), lines.text(), lines.text()
        lines.text()
        head = lines.words(3)
        # Between type and wear flags there may be one set of extra flags, or four.
        kind, wear = to_number(head[0]), flags(head[2] if len(head) < 9 else head[5])
        values = [to_number(word) for word in lines.words(4)[:4]]
        weight, price = (max(0, to_number(word)) for word in lines.words(2)[:2])
        name = self._truncated(lines, "name", short or aliases or f"object {number}")
        prototype: dict[str, Any] = {"name": name, "description": long[:2_000]}
        prototype.update(weight=min(weight, 10**6), price=min(price, 10**9), **_kind_fields(kind, wear, values))
        prototype["can_take"] = bool(wear & TAKE)
        if number in self._objects:
            raise BadLine(f"object {number} is defined twice")
        self._objects[number] = prototype
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
                raise BadLine(f"unknown line {line[:40]!r} in an object")

    # ---- mobiles ----

    def _mobile(self, lines: Lines, number: int) -> None:
        aliases, short = lines.text(), lines.text()
        lines.text()
        lines.text()
        wanders = not flags(lines.words(3)[0]) & SENTINEL
        fight = lines.words(3)
        health = _dice(fight[3]) if len(fight) > 3 else 1
        gold = to_number(lines.words(1)[0])
        lines.words(1)
        if number in self._mobiles:
            raise BadLine(f"mobile {number} is defined twice")
        self._mobiles[number] = {
            "name": self._truncated(lines, "name of a mobile", short or aliases or f"mobile {number}"),
            "gold": min(max(0, gold), 10**9),
            "health": min(max(1, health), 10_000),
            "wanders": wanders,
        }
        lines.to_next_record()

    # ---- shops ----

    def _shop(self, lines: Lines, number: int) -> None:
        goods = self._numbers(lines)
        sells_at, buys_at = (_percent(lines.nonempty()) for _ in range(2))
        self._skip_wanted_types(lines)
        for _ in range(7):
            lines.text()
        lines.nonempty()
        lines.nonempty()
        keeper = to_number(lines.nonempty().split()[0])
        self._shops[keeper] = {"goods": goods, "shop": {"sells_at": sells_at, "buys_at": buys_at}}
        self.blueprint.defined_at[f"shop of {keeper}"] = (lines.file, lines.number)
        lines.to_next_record()

    def _skip_wanted_types(self, lines: Lines) -> None:
        if self._has_old_shops:
            self._numbers(lines)
            return
        while not lines.nonempty().startswith("-1"):
            pass

    def _numbers(self, lines: Lines) -> list[int]:
        if self._has_old_shops:
            return [number for _ in range(IN_OLD_SHOP) if (number := to_number(lines.nonempty().split()[0])) > 0]
        numbers = []
        while (number := to_number(lines.nonempty().split()[0])) != -1:
            numbers.append(number)
        return numbers

    # ---- zones ----

    def _zone(self, lines: Lines, number: int) -> None:
        while len(leading_numbers(lines.peek().split())) < 2:  # newer zones name their builders first
            self.blueprint.name = lines.text() or self.blueprint.name
        lines.words(3)
        while (line := lines.nonempty()) not in ("S", "$"):
            if line[0] != "*":
                self._reset(lines, line.split())

    def _reset(self, lines: Lines, words: list[str]) -> None:
        """Run one command of a zone, which creates a copy of a prototype; a bad command does not affect the next."""
        try:
            numbers = leading_numbers(words[1:])
            if words[0] == "M":
                self._add_mobile(lines, numbers[1], str(numbers[3]))
            elif words[0] == "O":
                self._add_object(lines, numbers[1], {"location": str(numbers[3])})
            elif words[0] in ("G", "E"):
                self._equip(lines, numbers[1])
            elif words[0] == "P":
                self._fill(lines, numbers[1], numbers[3])
            elif words[0] not in ("D", "R", "T", "V"):
                raise BadLine(f"{words[0][:40]!r} is not a zone command")
        except IndexError:
            self._add_problem(lines, f"{words[0][:40]} has too few values")
        except BadLine as error:
            self._add_problem(lines, str(error))

    def _add_mobile(self, lines: Lines, number: int, room_id: str) -> None:
        prototype = self._mobiles.get(number)
        self._last_mobile = ""
        if prototype is None:
            raise BadLine(f"mobile {number} is not defined")
        person_id = self._new_id("mob", number)
        name = prototype["name"]
        self._name_counts[name.casefold()] += 1
        if (count := self._name_counts[name.casefold()]) > 1:
            name = f"{name} ({count})"
        person = {"name": name, "gold": prototype["gold"], "health": prototype["health"], "location": room_id}
        shop = self._shops.get(number)
        if shop:
            person.update(kind="shopkeeper", shop=shop["shop"])
        else:
            person.update(kind="monster", wanders=prototype["wanders"])
        self.blueprint.people[person_id] = person
        self.blueprint.defined_at[person_id] = (lines.file, lines.number)
        self._last_mobile = person_id
        for good in shop["goods"] if shop else ():
            try:
                self._add_object(lines, good, {"character": person_id}, goods=True)
            except BadLine as error:
                self._add_problem(lines, str(error))

    def _equip(self, lines: Lines, number: int) -> None:
        if not self._last_mobile:
            raise BadLine("no mobile before this line to give the object to")
        self._add_object(lines, number, {"character": self._last_mobile})

    def _fill(self, lines: Lines, number: int, container: int) -> None:
        if container not in self._last_object:
            raise BadLine(f"no container {container} before this line to put the object into")
        self._add_object(lines, number, {"container": self._last_object[container]})

    def _add_object(self, lines: Lines, number: int, holder: dict[str, str], *, goods: bool = False) -> None:
        prototype = self._objects.get(number)
        if prototype is None:
            raise BadLine(f"object {number} is not defined")
        if not prototype["can_take"] and prototype["kind"] != "container" and "location" in holder:
            self._add_to_description(holder["location"], prototype["description"])  # a fountain or a statue
            return
        thing_id = self._new_id("obj", number)
        thing = {name: value for name, value in prototype.items() if name != "can_take"}
        if goods and thing["kind"] in ("thing", "potion"):
            thing["qty"] = STACKED_GOODS
        self.blueprint.things[thing_id] = {**thing, **holder}
        self.blueprint.defined_at[thing_id] = (lines.file, lines.number)
        self._last_object[number] = thing_id

    def _add_to_description(self, room_id: str, text: str) -> None:
        room = self.blueprint.rooms.get(room_id)
        if room is not None and text and len(room["description"]) < 3_000:
            room["description"] = f"{room['description']} {text[:900]}".strip()

    def _new_id(self, kind: str, number: int) -> str:
        name = f"{kind}/{number}"
        self._copy_counts[name] += 1
        return f"{name}/{self._copy_counts[name]}"

    def finish(self) -> None:
        """Choose the start room, and report references to things that no file defined."""
        if START in self.blueprint.rooms:
            self.blueprint.start = START
        for keeper in self._shops.keys() - self._mobiles.keys():
            self.blueprint.add_problem_of(
                f"shop of {keeper}", f"the keeper of a shop is mobile {keeper}, which is not defined"
            )
        self.blueprint.check_references()


def _kind_fields(kind: int, wear: int, values: list[int]) -> dict[str, Any]:
    if kind == WEAPON:
        return {"kind": "weapon", "bonus": min(max(0, values[1] * (values[2] + 1) // 2), 1_000)}
    if kind == CONTAINER:
        return {"kind": "container", "capacity": min(max(1, values[0]), 10**6)}
    if kind == POTION:
        return {"kind": "potion", "heals": min(max(1, values[0]), 1_000)}
    if kind in (ARMOR, WORN):
        worn_on = {"head": HEAD, "hands": HANDS, "feet": FEET}
        region = next((name for name in REGIONS if wear & worn_on.get(name, 0)), "body")
        return {"kind": "armor", "region": region, "bonus": min(max(0, values[0] if kind == ARMOR else 0), 1_000)}
    return {"kind": "thing"}


def _dice(word: str) -> int:
    """Return the average of a dice expression like `3d8+20`."""
    if (match := DICE.fullmatch(word)) is None:
        raise BadLine(f"{word[:40]!r} is not a dice expression like 3d8+20")
    count, sides, more = (int(part or 0) for part in match.groups())
    return count * (sides + 1) // 2 + more


def _is_script(line: str) -> bool:
    """Return True for a script line such as `T 105`, which may stand before or after the end of a room."""
    return line[:1] == "T" and line[1:].strip().isdigit()


def _percent(word: str) -> int:
    try:
        return min(max(0, round(float(word) * 100)), 10_000)
    except (ValueError, OverflowError):
        raise BadLine(f"{word[:40]!r} is not a price rate") from None
