"""Play in a terminal: turn a line of text into an action, and its result into text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from squinney.errors import Conflict, LimitReached, NotFound
from squinney.game import Character, Entry, NotForSale, OutOfReach, UnknownCharacter, World, rules
from squinney.game.surface import words

HELP = """\
n, e, s, w, u, d or go WAY    walk          look, look THING, map  what you see, and where you were
take [N] THING, drop [N] THING              take THING from BAG, put THING in BAG
take all, drop all            all you can   give THING to NAME     hand over
wear, wield, remove THING     use THING     equipment              what you wear and wield
wield THING in left           which hand
buy THING, sell THING         in a shop     list                   what the shop sells
inventory (i)                 what you have say WORDS (or ' WORDS)  quit
The first letters of a command will do."""

Command = Callable[[Character, str], str]


class Player:
    """A character that is played by lines of text."""

    def __init__(self, world: World, name: str) -> None:
        """Play the character of that name; if there is none, create one."""
        self._world = world
        try:
            self._id = world.named(name)["_id"]
        except UnknownCharacter:
            self._id = world.create_character(name, location=world.start()["_id"], gold=40)["_id"]
        self._location_id = world.character(self._id)["location"]["id"]
        self._view_commands = self._views()
        self._commands: dict[str, Command] = {**self._view_commands, **self._actions()}

    def text_of(self, event: dict[str, Any]) -> str:
        """Return the text to show for an event; empty for the player's own events and for those in other rooms."""
        if event["character_id"] == self._id or event["location_id"] != self._location_id:
            return ""
        text = f"{event['name']} says: {event['text']}" if event["kind"] == "said" else str(event["text"])
        return words.printable(text)

    def run(self, line: str) -> str:
        """Run the command in a line, and return the text to show.

        The things that the words refer to are found in the cache, or in the database if the cache fails.

        Raises: the errors of the world's actions.
        """
        word, _, rest = line.strip().partition(" ")
        word, rest = word.lower(), rest.strip()
        if line.strip().startswith("'"):
            word, rest = "say", line.strip()[1:].strip()
        if not word or word in ("help", "h", "?"):
            return HELP
        is_view = words.find_command(self._commands, word) in self._view_commands.values()
        if is_view and word not in rules.DIRECTIONS:
            return self._run_command(self._world.screen(self._id), word, rest)
        try:
            return self._run_command(self._world.glance(self._id), word, rest)
        except (NotFound, OutOfReach, NotForSale):  # the action was refused, so nothing has changed
            return self._run_command(self._world.screen(self._id), word, rest)

    def _run_command(self, me: Character, word: str, rest: str) -> str:
        ways = {rules.direction_name(direction): direction for direction in me["location"]["exits"]}
        if word in me["location"]["exits"] or word in ways or word in rules.DIRECTIONS:
            return self._go(ways.get(word, word))
        if act := words.find_command(self._commands, word):
            return act(me, rest)
        directions = {name: name for name in rules.DIRECTIONS.values()}
        if direction := words.find_command(directions, word):
            return self._go(direction)
        return words.unknown_command([*self._commands, *directions], word)

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

    def _actions(self) -> dict[str, Command]:
        world, mine = self._world, self._mine
        return {
            "go": lambda me, rest: self._go(rest),
            "take": self._take,
            "get": self._take,
            "drop": self._drop,
            "put": self._put,
            "give": self._give,
            "say": lambda me, rest: f"You say: {world.say(self._id, rest)['text']}" if rest else "Say what?",
            "wear": lambda me, rest: _text_of(world.wear(self._id, mine(me, rest)["id"])),
            "wield": self._wield,
            "remove": lambda me, rest: _text_of(world.remove(self._id, mine(me, rest)["id"])),
            "use": lambda me, rest: _text_of(world.use(self._id, mine(me, rest)["id"])),
            "drink": lambda me, rest: _text_of(world.use(self._id, mine(me, rest)["id"])),
            "buy": self._buy,
            "sell": self._sell,
        }

    # ---- actions ----

    def _go(self, direction: str) -> str:
        if not direction:
            return "Go where?"
        short = {name: letter for letter, name in rules.DIRECTIONS.items()}.get(direction, direction)
        self._location_id = self._world.move(self._id, short)["location_id"]
        return self._look(self._world.location(self._location_id))

    def _take(self, me: Character, rest: str) -> str:
        thing, bag = words.split_at(rest, "from", "out of")
        if bag:
            return self._take_from(me, thing, bag)
        if thing == "all":
            return self._each(me["location"]["inventory"], lambda one: self._world.pick_up(self._id, one["id"]))
        qty, name = words.split_count(thing)
        return _text_of(self._world.pick_up(self._id, words.find_named(me["location"]["inventory"], name)["id"], qty))

    def _take_from(self, me: Character, thing: str, bag: str) -> str:
        container = words.find_named(_near(me), bag)["id"]
        inside = self._world.contents(self._id, container)
        if thing == "all":
            return self._each(inside, lambda one: self._world.take_out(self._id, container, one["id"]))
        qty, name = words.split_count(thing)
        return _text_of(
            self._world.take_out(self._id, container, words.find_named(inside, name, "there is no {} in it")["id"], qty)
        )

    def _drop(self, me: Character, rest: str) -> str:
        if rest == "all":
            return self._each(_not_in_use(me), lambda one: self._world.drop(self._id, one["id"]))
        qty, name = words.split_count(rest)
        return _text_of(self._world.drop(self._id, self._mine(me, name)["id"], qty))

    def _put(self, me: Character, rest: str) -> str:
        thing, bag = words.split_at(rest, "into", "in")
        container = words.find_named(_near(me), bag)["id"]
        if thing == "all":
            others = [one for one in _not_in_use(me) if one["id"] != container]
            return self._each(others, lambda one: self._world.put_in(self._id, container, one["id"]))
        qty, name = words.split_count(thing)
        return _text_of(self._world.put_in(self._id, container, self._mine(me, name)["id"], qty))

    def _give(self, me: Character, rest: str) -> str:
        thing, other = words.split_at(rest, "to")
        qty, name = words.split_count(thing)
        to = words.find_named((one for one in me["location"]["players"] if one["id"] != self._id), other)
        return _text_of(self._world.give(self._id, to["id"], self._mine(me, name)["id"], qty))

    def _wield(self, me: Character, rest: str) -> str:
        name, hand = words.split_at(rest, "in")
        free = "left" if any(one["hand"] == "right" for one in me["weapons"]) else "right"
        hand = hand.removesuffix("hand").removesuffix("hands").strip() or free
        return _text_of(self._world.wield(self._id, self._mine(me, name)["id"], hand))

    def _each(self, entries: Iterable[Any], act: Callable[[Any], Any]) -> str:
        """Run an action for each entry, and return the texts; a refusal is one of the texts."""
        lines = []
        for entry in entries:
            try:
                lines.append(_text_of(act(entry)))
            except (NotFound, Conflict, LimitReached) as error:
                lines.append(error.message)
        return "\n".join(lines) or "There is nothing."

    def _keeper(self, me: Character) -> str:
        for one in me["location"]["players"]:
            if one["kind"] == "shopkeeper":
                return str(one["id"])
        raise OutOfReach("nobody keeps a shop here")

    def _buy(self, me: Character, rest: str) -> str:
        qty, name = words.split_count(rest)
        keeper = self._keeper(me)
        good = words.find_named(self._world.goods(keeper), name, "there is no {} for sale here")["id"]
        return _text_of(self._world.buy(self._id, keeper, good, qty or 1))

    def _sell(self, me: Character, rest: str) -> str:
        qty, name = words.split_count(rest)
        return _text_of(self._world.sell(self._id, self._keeper(me), self._mine(me, name)["id"], qty or 1))

    def _mine(self, me: Character, name: str) -> Entry:
        found: Entry = words.find_named(me["inventory"], name, "you carry no {}")
        return found

    # ---- views ----

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
        thing = words.find_named(things, name.removeprefix("at ").removeprefix("in "))
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
        worn = [f"{one['region']}: {rules.described(_carried(me, one['id']))}" for one in me["armor"]]
        wielded = [f"{one['hand']}: {rules.described(_carried(me, one['id']))}" for one in me["weapons"]]
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


def _text_of(event: Any) -> str:
    return str(event["text"])


def _near(me: Character) -> list[Any]:
    return [*rules.walk(me["inventory"]), *me["location"]["inventory"]]


def _not_in_use(me: Character) -> list[Entry]:
    used = rules.in_use(me)
    return [entry for entry in me["inventory"] if entry["id"] not in used]


def _carried(me: Character, item_id: str) -> Any:
    return rules.entry_with(me["inventory"], item_id) or {"name": "something"}


def _joined(names: list[str], more: int) -> str:
    return ", ".join(names) + (f", and {more} more" if more > 0 else "")


def _listed(entries: Iterable[Entry], used: set[str], indent: str = "") -> list[str]:
    lines = []
    for entry in entries:
        lines.append(f"{indent}{rules.described(entry)}{' (in use)' if entry['id'] in used else ''}")
        lines += _listed(entry.get("inventory", ()), used, f"{indent}    ")
    return lines
