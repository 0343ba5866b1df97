"""`Typed`: runs the lines that a player types, in a terminal or on the page."""

from __future__ import annotations

from collections.abc import Sequence

from squinney.errors import Conflict, LimitReached, NotFound
from squinney.game import Character, NotForSale, OutOfReach, World, rules
from squinney.game.surface import words
from squinney.game.surface.actions import TABLE, ReadWords, act
from squinney.game.surface.grammar import LETTERS, Call
from squinney.game.surface.views import VIEWS, room_text
from squinney.transactions import Key

ACTS: dict[str, ReadWords] = {command: row.read for row in TABLE if row.read for command in row.commands}
COMMANDS = [*VIEWS, *ACTS]  # the first that starts with what was typed is meant
USAGES = [
    "n, e, s, w, u, d, or a word such as north: walk",
    *(row.usage for row in TABLE if row.usage),
    "look, look THING, list (in a shop), inventory, equipment, map",
]
HELP = "\n".join([*USAGES, "The first letters of a command will do."])


class Typed:
    """Runs what a player types for one character, and returns the text to show."""

    def __init__(self, world: World, character_id: str) -> None:
        self._world = world
        self._id = character_id
        self.location_id = ""  # of the room that the character last walked into

    def run(self, line: str, *, key: Key | None = None) -> str:
        """Run the command in a line, and return the text to show. A line sent twice with one `key` acts once.

        The things that the words refer to are found in the cache, or in the database if the cache fails.

        Raises: the errors of the actions.
        """
        command, rest = _split(line)
        if command in ("", "help", "h", "?"):
            return HELP
        known = words.find_command(COMMANDS, command)
        if known in VIEWS and command not in rules.DIRECTIONS:
            return VIEWS[known](self._world, self._world.screen(self._id), rest)
        try:
            return self._act(self._world.glance(self._id), command, rest, key)
        except (NotFound, OutOfReach, NotForSale):  # the action was refused, so nothing has changed
            return self._act(self._world.screen(self._id), command, rest, key)

    def _act(self, me: Character, command: str, rest: str, key: Key | None) -> str:
        exits = me["location"]["exits"]
        if command in exits or command in LETTERS or command in rules.DIRECTIONS:
            return self._go(Call("move", {"direction": LETTERS.get(command, command)}), key)
        if act_name := words.find_command(ACTS, command):
            return self._run(ACTS[act_name](self._world, me, rest), key)
        if direction := words.find_command(LETTERS, command):
            return self._go(Call("move", {"direction": LETTERS[direction]}), key)
        return words.unknown_command([*COMMANDS, *LETTERS], command)

    def _run(self, calls: Sequence[Call], key: Key | None) -> str:
        if len(calls) != 1:
            return self._run_each(calls, key)
        if calls[0].action == "move":
            return self._go(calls[0], key)
        event = act(self._world, self._id, calls[0], key)
        return f"You say: {event['text']}" if event["kind"] == "said" else event["text"]

    def _run_each(self, calls: Sequence[Call], key: Key | None) -> str:
        """Run each call, and return the texts; a refusal is one of the texts."""
        lines = []
        for number, call in enumerate(calls):
            try:
                own_key = Key(f"{key.text} {number}", key.scope) if key else None
                lines.append(act(self._world, self._id, call, own_key)["text"])
            except (NotFound, Conflict, LimitReached) as error:
                lines.append(error.message)
        return "\n".join(lines) or "There is nothing."

    def _go(self, call: Call, key: Key | None) -> str:
        self.location_id = act(self._world, self._id, call, key)["location_id"]
        return room_text(self._world.location(self.location_id), self._id)


def _split(line: str) -> tuple[str, str]:
    """Return the command in lower case, and what follows it; `'` is short for `say`."""
    line = line.strip()
    if line.startswith("'"):
        return "say", line[1:].strip()
    command, _, rest = line.partition(" ")
    return command.lower(), rest.strip()
