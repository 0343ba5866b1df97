"""A world in CircleMUD's format with every construct of its files, and with planted errors.

Even zones are in the format of newer servers (flags in four words, scripts after a room), odd zones in the old format.
"""

from __future__ import annotations

from pathlib import Path

ROOMS_IN_ZONE = 100
BROKEN = 90  # the index of the room in each zone whose text has no tilde


class Zone:
    """The five files of one zone, and the problems that the report must list."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.base = number * 100
        self.is_new = number % 2 == 0
        self.lines: dict[str, list[str]] = {ending: [] for ending in ("wld", "obj", "mob", "shp", "zon")}
        self.planted: list[str] = []
        self.late: list[str] = []  # reported after all files are read
        for number in range(self.base, self.base + ROOMS_IN_ZONE):
            self._room(number)
        self._objects()
        self._mobiles()
        self._shop()
        self._zone()

    def _add(self, ending: str, text: str) -> int:
        """Append lines to a file, and return the number of the last one."""
        self.lines[ending] += text.split("\n")
        return len(self.lines[ending])

    def _plant(self, ending: str, line: int, what: str, *, late: bool = False) -> None:
        (self.late if late else self.planted).append(f"{self.number}.{ending}:{line}: {what}")

    def _room(self, number: int) -> None:
        index = number - self.base
        if index == BROKEN:
            first_line = self._add("wld", f"#{number}\nA broken room~") + 1
            self._add("wld", "Nobody closed this text.\n$n would not, nor\n$N.\n1 0 0\nS")
            self._plant("wld", first_line + 4, f"the text that starts in line {first_line} has no ~ at its end")
            return
        self._add("wld", f"#{number}\nRoom {number}~\n   Grey walls,\nand one #{index} in red.\n$ is no end here.\n~")
        flags = "d 0 0 0 1" if self.is_new else ("d 1" if index % 2 else "8 1")
        line = self._add("wld", f"{self.number} {flags}")
        self._exits(number, line)
        if index % 10 == 0:
            self._add("wld", "E\nwalls grey~\nGrey they are.\n~")
        scripts = ["T 105"] if index % 7 == 0 else []
        self._add("wld", "\n".join(["S", *scripts] if self.is_new else [*scripts, "S"]))

    def _exits(self, number: int, line: int) -> None:
        index = number - self.base
        for direction, letter, target in ((1, "e", number + 1), (3, "w", number - 1)):
            if not self.base <= target < self.base + ROOMS_IN_ZONE:
                continue
            self._add("wld", f"D{direction}\nMore rooms.\n~\ndoor oak~\n1 -1 {target}")
            if target - self.base == BROKEN:
                what = f"the exit {letter} of room {number} leads to {target}, which is not a room"
                self._plant("wld", line, what, late=True)
        if index == 0:
            target = self.base + 100
            self._add("wld", f"D4\n~\n~\n0 -1 {target}\nD5\n~\nwall~\n0 -1 -1")
        if index == 1:
            at = self._add("wld", "D9\n~\n~\n0 0 1")
            self._plant("wld", at, "unknown direction 9")

    def _objects(self) -> None:
        tail = " 0 0 0" if self.is_new else ""
        kinds = [
            (5, "an", "0 2 5 3"),
            (15, "a", "50 1 -1 0"),
            (9, "ae", "3 0 0 0"),
            (23, "0", "9 9 0 0"),
            (10, "a", "5 0 0 0"),
        ]
        for index, (kind, wear, values) in enumerate(kinds):
            head = f"{kind} e{tail} {wear}{tail}{' 0' + tail if self.is_new else ''}"
            self._add(
                "obj",
                f"#{self.base + index}\nit~\nthing {self.base + index}~\nIt lies\nhere.~\n~\n{head}\n{values}\n2 30 5",
            )
            self._add("obj", "E\nthing~\nA thing.\n~\nA\n18 2\nT 33")
        at = self._add("obj", f"#{self.base + 9}\nbad~\nbad~\nBad.~\n~\nx y z")
        self._plant("obj", at, "'x' is not a number")

    def _mobiles(self) -> None:
        flags = "b 0 0 0 f 0 0 0 900 E" if self.is_new else "10 0 -350 S"
        for index, dice in enumerate(("2d6-3", "1d1+30000", "0d0+30")):
            self._add(
                "mob",
                f"#{self.base + index}\nfolk~\nfolk {self.base + index}~\nSomebody is\nhere.\n~\nPlain.\n~\n{flags}",
            )
            self._add("mob", f"3 19 8 {dice} 1d2+0\n40 900\n8 8 1")
            if self.is_new:
                self._add("mob", "BareHandAttack: 4\nStr: 18\nE\nT 12")
        at = self._add("mob", f"#{self.base + 9}\nbad~\nbad~\nBad.\n~\n~\n{flags}\n3 19 8 7x9 1d2\n0 0\n8 8 1") - 2
        self._plant("mob", at, "'7x9' is not a dice expression like 3d8+20")

    def _shop(self) -> None:
        said = "\n".join(f"%s Words {number}.~" for number in range(7))
        wanted = "5\nWEAPON sword\n-1" if self.is_new else "5\n-1"
        self._add("shp", "CircleMUD v3.0 Shop File~")
        self._add(
            "shp",
            f"#{self.base}~\n{self.base + 4}\n{self.base}\n-1\n1.20\n0.5\n{wanted}\n{said}\n0\n6\n{self.base + 1}\n0",
        )
        self._add("shp", f"{self.base}\n-1\n0\n28\n0\n0")

    def _zone(self) -> None:
        base = self.base
        self._add(
            "zon", f"#{self.number}\n" + ("Somebody~\n" if self.is_new else "") + f"13 towers, part {self.number}~"
        )
        self._add("zon", f"{base} {base + 99} 15 2" + (" d 0 0 0 -1 -1" if self.is_new else ""))
        self._add("zon", f"* who stands where\nM 0 {base} 1 {base + 3} \t(a soul)\nE 1 {base} 9 16\t(a thing)")
        self._add("zon", f"G 1 {base + 2} 9" + (" -1" if self.is_new else "") + " \t(3 things)")
        self._add("zon", f"M 0 {base + 1} 1 {base}\nM 0 {base + 2} 9 {base + 5}\nM 0 {base + 2} 9 {base + 6}")
        self._add("zon", f"O 0 {base + 1} 9 {base + 4}\nP 1 {base + 2} 9 {base + 1}\nO 0 {base + 3} 1 {base + 7}")
        self._add("zon", f"D 0 {base} 1 1\nR 0 {base} {base + 3} -1\nT 0 2 105 -1 {base}\nV 0 2 1 1 1 name value")
        self._plant("zon", self._add("zon", f"M 0 {base + 55} 1 {base}"), f"mobile {base + 55} is not defined")
        self._plant("zon", self._add("zon", "X 0 1 1"), "'X' is not a zone command")
        self._plant("zon", self._add("zon", "O 0"), "O has too few values")
        at = self._add("zon", f"O 0 {base} 1 {base + BROKEN}")
        self._plant("zon", at, f"obj/{base}/3 is in {base + BROKEN}, which does not exist", late=True)
        self._add("zon", "S")


def write_world(folder: Path, zones: int) -> list[str]:
    """Write the files, and return the problems that the report must list, in no order."""
    planted = []
    for number in range(1, zones + 1):
        zone = Zone(number)
        for ending, lines in zone.lines.items():
            end = {"wld": "$~", "zon": "$"}.get(ending, "$~" if zone.is_new else "#99999\n$~")
            (folder / f"{number}.{ending}").write_text("\n".join([*lines, end]) + "\n")
        planted += [*zone.planted, *zone.late]
        if number == zones:
            first = zone.base
            line = zone.lines["wld"].index(f"#{first}") + 7
            what = f"the exit u of room {first} leads to {first + 100}, which is not a room"
            planted.append(f"{number}.wld:{line}: {what}")
    return planted
