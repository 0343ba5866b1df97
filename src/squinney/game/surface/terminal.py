"""A character that is played in a terminal."""

from __future__ import annotations

from typing import Any

from squinney.game import UnknownCharacter, World
from squinney.game.surface import words
from squinney.game.surface.typed import Typed


class TerminalPlayer:
    """A character that is played by lines of text, and sees what others do in the same room."""

    def __init__(self, world: World, name: str) -> None:
        """Play the character of that name; if there is none, create one."""
        try:
            character = world.named(name)
        except UnknownCharacter:
            character = world.create_character(name, location=world.start()["_id"], gold=40)
        self.character_id = character["_id"]
        self._typed = Typed(world, self.character_id)
        self._typed.location_id = character["location"]["id"]

    def run(self, line: str) -> str:
        """Run the command in a line, and return the text to show.

        Raises: the errors of the world's actions.
        """
        return self._typed.run(line)

    def text_of(self, event: dict[str, Any]) -> str:
        """Return the text to show for an event; empty for the player's own events and for those in other rooms."""
        if event["character_id"] == self.character_id or event["location_id"] != self._typed.location_id:
            return ""
        text = f"{event['name']} says: {event['text']}" if event["kind"] == "said" else str(event["text"])
        return words.printable(text)
