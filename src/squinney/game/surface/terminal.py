"""A player in a terminal: a line of words becomes an action, and what is seen becomes text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from squinney.errors import Conflict, LimitReached, NotFound
from squinney.game import Character, Entry, NotForSale, OutOfReach, UnknownCharacter, World, rules
from squinney.game.surface import words

HELP = """\
n, e, s, w, u, d or go WAY    walk          look, look THING, map  what you see, and where you were
take [N] THING, drop [N] THING              take THING from BAG, put THING in BAG
take all, drop all            what one can  give THING to NAME     hand over
wear, wield, remove THING     use THING     equipment              what you wear and wield
wield THING in left           which hand
buy THING, sell THING         in a shop     list                   what the shop sells
inventory (i)                 what you have say WORDS (or ' WORDS)  quit
The first letters of a command will do."""

Command = Callable[[Character, str], str]


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
        self._acts, self._sights = self._commands(), self._views()
        self._all: dict[str, Command] = {**self._sights, **self._acts}

    def heard(self, event: dict[str, Any]) -> str:
        """What to tell of an event; nothing where it is the player's own, or elsewhere."""
        if event["character_id"] == self._id or event["location_id"] != self._location_id:
            return ""
        text = f"{event['name']} says: {event['text']}" if event["kind"] == "said" else str(event["text"])
        return words.plain(text)

    def answer(self, line: str) -> str:
        """Do what the line says, and tell what came of it.

        What the words mean is found by what this process remembers, and by what is read where that fails.

        Raises: what the world refuses.
        """
        word, _, rest = line.strip().partition(" ")
        word, rest = word.lower(), rest.strip()
        if line.strip().startswith("'"):
            word, rest = "say", line.strip()[1:].strip()
        if not word or word in ("help", "h", "?"):
            return HELP
        if words.command(self._all, word) in self._sights.values() and word not in rules.DIRECTIONS:
            return self._done_by(self._world.screen(self._id), word, rest)
        try:
            return self._done_by(self._world.glance(self._id), word, rest)
        except (NotFound, OutOfReach, NotForSale):  # it was refused, so nothing has changed
            return self._done_by(self._world.screen(self._id), word, rest)

    def _done_by(self, me: Character, word: str, rest: str) -> str:
        ways = {rules.direction_name(direction): direction for direction in me["location"]["exits"]}
        if word in me["location"]["exits"] or word in ways or word in rules.DIRECTIONS:
            return self._go(ways.get(word, word))
        if act := words.command(self._all, word):
            return act(me, rest)
        directions = {name: name for name in rules.DIRECTIONS.values()}
        if way := words.command(directions, word):
            return self._go(way)
        return words.unknown([*self._all, *directions], word)

    def _views(self) -> dict[str, Command]:
        return {
            "look": lambda me, rest: self._look_at(me, rest) if rest else self._look(me["location"]),
            "inventory": lambda me, rest: self._inventory(me),
            "equipment": lambda me, rest: self._equipment(me),
            "examine": self._look_at,
            "read": self._look_at,
            "list": lambda me, rest: self._list(me),
            "map": lambda me, rest: self._map(),
        }

    def _commands(self) -> dict[str, Command]:
        world, mine = self._world, self._mine
        return {
            "go": lambda me, rest: self._go(rest),
            "take": self._take,
            "get": self._take,
            "drop": self._drop,
            "put": self._put,
            "give": self._give,
            "say": lambda me, rest: f"You say: {world.say(self._id, rest)['text']}" if rest else "Say what?",
            "wear": lambda me, rest: _told(world.wear(self._id, mine(me, rest)["id"])),
            "wield": self._wield,
            "remove": lambda me, rest: _told(world.remove(self._id, mine(me, rest)["id"])),
            "use": lambda me, rest: _told(world.use(self._id, mine(me, rest)["id"])),
            "drink": lambda me, rest: _told(world.use(self._id, mine(me, rest)["id"])),
            "buy": self._buy,
            "sell": self._sell,
        }

    # ---- what is done ----

    def _go(self, direction: str) -> str:
        if not direction:
            return "Go where?"
        short = {name: letter for letter, name in rules.DIRECTIONS.items()}.get(direction, direction)
        self._location_id = self._world.move(self._id, short)["location_id"]
        return self._look(self._world.location(self._location_id))

    def _take(self, me: Character, rest: str) -> str:
        thing, bag = words.parted(rest, "from", "out of")
        if bag:
            return self._take_from(me, thing, bag)
        if thing == "all":
            return self._each(me["location"]["inventory"], lambda one: self._world.pick_up(self._id, one["id"]))
        qty, name = words.counted(thing)
        return _told(self._world.pick_up(self._id, words.named(me["location"]["inventory"], name)["id"], qty))

    def _take_from(self, me: Character, thing: str, bag: str) -> str:
        container = words.named(_near(me), bag)["id"]
        inside = self._world.contents(self._id, container)
        if thing == "all":
            return self._each(inside, lambda one: self._world.take_out(self._id, container, one["id"]))
        qty, name = words.counted(thing)
        return _told(
            self._world.take_out(self._id, container, words.named(inside, name, "there is no {} in it")["id"], qty)
        )

    def _drop(self, me: Character, rest: str) -> str:
        if rest == "all":
            return self._each(_idle(me), lambda one: self._world.drop(self._id, one["id"]))
        qty, name = words.counted(rest)
        return _told(self._world.drop(self._id, self._mine(me, name)["id"], qty))

    def _put(self, me: Character, rest: str) -> str:
        thing, bag = words.parted(rest, "into", "in")
        container = words.named(_near(me), bag)["id"]
        if thing == "all":
            others = [one for one in _idle(me) if one["id"] != container]
            return self._each(others, lambda one: self._world.put_in(self._id, container, one["id"]))
        qty, name = words.counted(thing)
        return _told(self._world.put_in(self._id, container, self._mine(me, name)["id"], qty))

    def _give(self, me: Character, rest: str) -> str:
        thing, other = words.parted(rest, "to")
        qty, name = words.counted(thing)
        to = words.named((one for one in me["location"]["players"] if one["id"] != self._id), other)
        return _told(self._world.give(self._id, to["id"], self._mine(me, name)["id"], qty))

    def _wield(self, me: Character, rest: str) -> str:
        name, hand = words.parted(rest, "in")
        free = "left" if any(one["hand"] == "right" for one in me["weapons"]) else "right"
        hand = hand.removesuffix("hand").removesuffix("hands").strip() or free
        return _told(self._world.wield(self._id, self._mine(me, name)["id"], hand))

    def _each(self, entries: Iterable[Any], act: Callable[[Any], Any]) -> str:
        """As many of them as go; what is refused is told with the rest."""
        lines = []
        for entry in entries:
            try:
                lines.append(_told(act(entry)))
            except (NotFound, Conflict, LimitReached) as error:
                lines.append(error.message)
        return "\n".join(lines) or "There is nothing."

    def _keeper(self, me: Character) -> str:
        for one in me["location"]["players"]:
            if one["kind"] == "shopkeeper":
                return str(one["id"])
        raise OutOfReach("nobody keeps a shop here")

    def _buy(self, me: Character, rest: str) -> str:
        qty, name = words.counted(rest)
        keeper = self._keeper(me)
        good = words.named(self._world.goods(keeper), name, "there is no {} for sale here")["id"]
        return _told(self._world.buy(self._id, keeper, good, qty or 1))

    def _sell(self, me: Character, rest: str) -> str:
        qty, name = words.counted(rest)
        return _told(self._world.sell(self._id, self._keeper(me), self._mine(me, name)["id"], qty or 1))

    def _mine(self, me: Character, name: str) -> Entry:
        found: Entry = words.named(me["inventory"], name, "you carry no {}")
        return found

    # ---- what is seen ----

    def _look(self, room: Any) -> str:
        lines = [room["name"] or "Somewhere", room["description"]]
        lines.append("Ways: " + (", ".join(rules.direction_name(one) for one in room["exits"]) or "none"))
        others = [one["name"] for one in room["players"] if one["id"] != self._id]
        lines += [f"Here: {_joined(others, room['player_count'] - len(room['players']))}"] if others else []
        things = [rules.described(entry) for entry in room["inventory"]]
        lines += [f"On the ground: {_joined(things, room['thing_count'] - len(things))}"] if things else []
        return "\n".join(lines)

    def _look_at(self, me: Character, name: str) -> str:
        things = [*_near(me), *me["location"]["players"]]
        thing = words.named(things, name.removeprefix("at ").removeprefix("in "))
        seen = self._world.descriptions([thing["id"]]).get(thing["id"], f"Nothing special about {thing['name']}.")
        if thing["kind"] != "container":
            return seen
        inside = _listed(self._world.contents(self._id, thing["id"]), set(), "    ")
        return "\n".join([seen, "In it:" if inside else "It is empty.", *inside])

    def _inventory(self, me: Character) -> str:
        used = rules.in_use(me)
        lines = [f"{me['gold']} gold, carrying {me['load']} of {rules.carry_limit(me)}"]
        return "\n".join([*lines, *_listed(me["inventory"], used)])

    def _equipment(self, me: Character) -> str:
        worn = [f"{one['region']}: {rules.described(_of(me, one['id']))}" for one in me["armor"]]
        wielded = [f"{one['hand']}: {rules.described(_of(me, one['id']))}" for one in me["weapons"]]
        return "\n".join([*worn, *wielded]) or "You wear and wield nothing."

    def _list(self, me: Character) -> str:
        goods = self._world.goods(self._keeper(me))
        lines = [f"{rules.described(one)}: {one['cost']} gold{' each' if one['qty'] > 1 else ''}" for one in goods]
        return "\n".join(lines) or "Nothing today."

    def _map(self) -> str:
        rooms = {room["_id"]: room for room in self._world.map_of(self._id)}
        lines = []
        for room in rooms.values():
            ways = [f"{way} to {rooms[to]['name'] if to in rooms else '?'}" for way, to in room["exits"].items()]
            lines.append(f"{room['name'] or room['_id']}: {', '.join(ways)}")
        return "\n".join(lines)


def _told(event: Any) -> str:
    return str(event["text"])


def _near(me: Character) -> list[Any]:
    return [*rules.walk(me["inventory"]), *me["location"]["inventory"]]


def _idle(me: Character) -> list[Entry]:
    used = rules.in_use(me)
    return [entry for entry in me["inventory"] if entry["id"] not in used]


def _of(me: Character, item_id: str) -> Any:
    return rules.entry_with(me["inventory"], item_id) or {"name": "something"}


def _joined(names: list[str], more: int) -> str:
    return ", ".join(names) + (f", and {more} more" if more > 0 else "")


def _listed(entries: Iterable[Entry], used: set[str], before: str = "") -> list[str]:
    lines = []
    for entry in entries:
        lines.append(f"{before}{rules.described(entry)}{' (in use)' if entry['id'] in used else ''}")
        lines += _listed(entry.get("inventory", ()), used, f"{before}    ")
    return lines
