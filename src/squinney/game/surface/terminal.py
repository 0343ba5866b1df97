"""A player in a terminal: a line of words becomes an action, and what is seen becomes text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from squinney.errors import NotFound
from squinney.game import Character, Entry, OutOfReach, UnknownCharacter, World, rules

HELP = """\
n, e, s, w, u, d or go WAY    walk          look, look THING, map  what you see, and where you were
take [N] THING, drop [N] THING              take THING from BAG, put THING in BAG
give THING to NAME            hand over     wear, wield, remove, use THING
buy THING, sell THING         in a shop     list                   what the shop sells
inventory (i)                 what you have say WORDS (or ' WORDS)  quit"""


class Player:
    """One character, played by lines of text."""

    def __init__(self, world: World, name: str) -> None:
        """A character of that name is taken over; where there is none, one is made."""
        self._world = world
        try:
            self._id = world.named(name)["_id"]
        except UnknownCharacter:
            self._id = world.create_character(name, location=world.start()["_id"], gold=40)["_id"]
        self._location_id = world.character(self._id)["location"]["id"]

    def heard(self, event: dict[str, Any]) -> str:
        """What to tell of an event; nothing where it is the player's own, or elsewhere."""
        if event["character_id"] == self._id or event["location_id"] != self._location_id:
            return ""
        return f"{event['name']} says: {event['text']}" if event["kind"] == "said" else str(event["text"])

    def answer(self, line: str) -> str:
        """Do what the line says, and tell what came of it.

        Raises: what the world refuses.
        """
        word, _, rest = line.strip().partition(" ")
        word, rest = word.lower(), rest.strip()
        if line.strip().startswith("'"):
            word, rest = "say", line.strip()[1:].strip()
        if not word or word == "help":
            return HELP
        me = self._world.screen(self._id)
        ways = {rules.way(direction): direction for direction in me["location"]["exits"]}
        if word in me["location"]["exits"] or word in ways or word in rules.DIRECTIONS:
            return self._go(ways.get(word, word))
        act = self._commands().get(word)
        return act(me, rest) if act else f"I do not know how to {word}; `help` tells what one can do."

    def _commands(self) -> dict[str, Callable[[Character, str], str]]:
        return {
            "look": lambda me, rest: self._look_at(me, rest) if rest else self._look(me),
            "read": self._look_at,
            "go": lambda me, rest: self._go(rest),
            "take": self._take,
            "get": self._take,
            "drop": self._drop,
            "put": self._put,
            "give": self._give,
            "wear": lambda me, rest: self._done(self._world.wear(self._id, self._mine(me, rest)["id"])),
            "wield": lambda me, rest: self._done(self._world.wield(self._id, self._mine(me, rest)["id"])),
            "remove": lambda me, rest: self._done(self._world.remove(self._id, self._mine(me, rest)["id"])),
            "use": lambda me, rest: self._done(self._world.use(self._id, self._mine(me, rest)["id"])),
            "drink": lambda me, rest: self._done(self._world.use(self._id, self._mine(me, rest)["id"])),
            "list": lambda me, rest: self._list(me),
            "buy": self._buy,
            "sell": self._sell,
            "inventory": lambda me, rest: self._inventory(me),
            "i": lambda me, rest: self._inventory(me),
            "say": lambda me, rest: self._say(rest),
            "map": lambda me, rest: self._map(),
        }

    # ---- what is done ----

    def _done(self, event: Any) -> str:
        return str(event["text"])

    def _say(self, words: str) -> str:
        return f"You say: {self._world.say(self._id, words)['text']}"

    def _go(self, direction: str) -> str:
        short = {name: letter for letter, name in rules.DIRECTIONS.items()}.get(direction, direction)
        self._location_id = self._world.move(self._id, short or "?")["location_id"]
        return self._look(self._world.screen(self._id))

    def _take(self, me: Character, rest: str) -> str:
        thing, _, bag = rest.partition(" from ")
        qty, name = _counted(thing)
        if bag:
            container = _found([*rules.walk(me["inventory"]), *me["location"]["inventory"]], bag)
            inside = self._world.contents(self._id, container["id"])
            return self._done(self._world.take_out(self._id, container["id"], _found(inside, name)["id"], qty))
        return self._done(self._world.pick_up(self._id, _found(me["location"]["inventory"], name)["id"], qty))

    def _drop(self, me: Character, rest: str) -> str:
        qty, name = _counted(rest)
        return self._done(self._world.drop(self._id, self._mine(me, name)["id"], qty))

    def _put(self, me: Character, rest: str) -> str:
        thing, _, bag = rest.partition(" in ")
        qty, name = _counted(thing)
        container = _found([*rules.walk(me["inventory"]), *me["location"]["inventory"]], bag)
        return self._done(self._world.put_in(self._id, container["id"], self._mine(me, name)["id"], qty))

    def _give(self, me: Character, rest: str) -> str:
        thing, _, other = rest.partition(" to ")
        qty, name = _counted(thing)
        to = _found(me["location"]["players"], other)
        return self._done(self._world.give(self._id, to["id"], self._mine(me, name)["id"], qty))

    def _keeper(self, me: Character) -> str:
        for one in me["location"]["players"]:
            if one["kind"] == "shopkeeper":
                return str(one["id"])
        raise OutOfReach("nobody keeps a shop here")

    def _buy(self, me: Character, rest: str) -> str:
        qty, name = _counted(rest)
        keeper = self._keeper(me)
        return self._done(self._world.buy(self._id, keeper, _found(self._world.goods(keeper), name)["id"], qty or 1))

    def _sell(self, me: Character, rest: str) -> str:
        qty, name = _counted(rest)
        return self._done(self._world.sell(self._id, self._keeper(me), self._mine(me, name)["id"], qty or 1))

    def _mine(self, me: Character, name: str) -> Entry:
        found: Entry = _found(me["inventory"], name)
        return found

    # ---- what is seen ----

    def _look(self, me: Character) -> str:
        room = me["location"]
        lines = [room["name"] or room["id"], room["description"]]
        lines.append("Ways: " + (", ".join(rules.way(one) for one in room["exits"]) or "none"))
        others = [one["name"] for one in room["players"] if one["id"] != self._id]
        lines += [f"Here: {_joined(others, room['player_count'] - len(room['players']))}"] if others else []
        things = [rules.described(entry) for entry in room["inventory"]]
        lines += [f"On the ground: {_joined(things, room['thing_count'] - len(things))}"] if things else []
        return "\n".join(lines)

    def _look_at(self, me: Character, name: str) -> str:
        thing = _found([*rules.walk(me["inventory"]), *me["location"]["inventory"]], name.removeprefix("at "))
        return self._world.descriptions([thing["id"]]).get(thing["id"], f"Nothing special about {thing['name']}.")

    def _inventory(self, me: Character) -> str:
        used = rules.in_use(me)
        lines = [f"{me['gold']} gold, carrying {me['load']} of {rules.carry_limit(me)}"]
        return "\n".join([*lines, *_listed(me["inventory"], used)])

    def _list(self, me: Character) -> str:
        goods = self._world.goods(self._keeper(me))
        return "\n".join(f"{rules.described(one)}: {one['cost']} gold" for one in goods) or "Nothing today."

    def _map(self) -> str:
        rooms = {room["_id"]: room for room in self._world.map_of(self._id)}
        lines = []
        for room in rooms.values():
            ways = [f"{way} to {rooms[to]['name'] if to in rooms else '?'}" for way, to in room["exits"].items()]
            lines.append(f"{room['name'] or room['_id']}: {', '.join(ways)}")
        return "\n".join(lines)


def _counted(words: str) -> tuple[int | None, str]:
    """`3 arrows` is three of them."""
    first, _, rest = words.strip().partition(" ")
    return (int(first), rest.strip()) if rest and first.isascii() and first.isdigit() else (None, words.strip())


def _found(entries: Iterable[Any], name: str) -> Any:
    """The one that is called so; else the first that has the word in its name."""
    wanted, listed = name.strip().casefold(), list(entries)
    exact = [one for one in listed if one["name"].casefold() == wanted]
    near = [one for one in listed if wanted and wanted in one["name"].casefold()]
    if not exact and not near:
        raise NotFound(f"there is no {name or 'such thing'} here")
    return (exact or near)[0]


def _joined(names: list[str], more: int) -> str:
    return ", ".join(names) + (f", and {more} more" if more > 0 else "")


def _listed(entries: Iterable[Entry], used: set[str], before: str = "") -> list[str]:
    lines = []
    for entry in entries:
        lines.append(f"{before}{rules.described(entry)}{' (in use)' if entry['id'] in used else ''}")
        lines += _listed(entry.get("inventory", ()), used, f"{before}    ")
    return lines
