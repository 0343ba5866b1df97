"""Parse a player's words: which command, how many of which thing, and which character."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from squinney.errors import NotFound


def find_command(commands: Iterable[str], word: str) -> str:
    """Return the command with that name, or the first one that starts with the word; empty if there is none."""
    names = list(commands)
    return word if word in names else next((name for name in names if name.startswith(word)), "")


def unknown_command(commands: Iterable[str], word: str) -> str:
    """Return the message for a word that is not a command."""
    near = get_close_matches(word, list(commands), n=1)
    meant = f" Did you mean `{near[0]}`?" if near else ""
    return f"I do not know how to {word[:40]}; `help` lists the commands.{meant}"


def split_count(words: str) -> tuple[int | None, str]:
    """Split `3 arrows` into the number and the name; without a number it is None."""
    first, _, rest = words.strip().partition(" ")
    is_count = rest and first.isascii() and first.isdigit() and len(first) < 10
    return (int(first), rest.strip()) if is_count else (None, words.strip())


def split_at(words: str, *separators: str) -> tuple[str, str]:
    """Split `lamp in sack` at one of these words; without any of them the second part is empty."""
    for word in separators:
        first, separator, second = words.partition(f" {word} ")
        if separator:
            return first.strip(), second.strip()
    return words.strip(), ""


def find_named(entries: Iterable[Any], name: str, missing: str = "there is no {} here") -> Any:
    """Return the entry with that name, or the first one whose name contains it. `missing` is the error message.

    Raises: `NotFound`.
    """
    wanted, listed = _without_article(name), list(entries)
    exact = [entry for entry in listed if _without_article(entry["name"]) == wanted]
    near = [entry for entry in listed if wanted and wanted in entry["name"].casefold()]
    if not exact and not near:
        raise NotFound(missing.format(name.strip() or "such thing"))
    return (exact or near)[0]


def _without_article(name: str) -> str:
    first, _, rest = name.strip().casefold().partition(" ")
    return rest.strip() if rest and first in ("a", "an", "the") else name.strip().casefold()


def printable(text: str) -> str:
    """Replace control characters by spaces: a text by another user must not control the terminal or fake a line."""
    # guard: a text by another user does not control the terminal
    return "".join(letter if letter.isprintable() else " " for letter in text)
