"""What a player's words mean: which command, how many of which thing, and of whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from squinney.errors import NotFound

Act = TypeVar("Act")


def command(commands: Mapping[str, Act], word: str) -> Act | None:
    """The command of that name, or the first whose name begins so."""
    return commands.get(word) or next((commands[name] for name in commands if name.startswith(word)), None)


def unknown(commands: Iterable[str], word: str) -> str:
    """What to say of a word that is no command."""
    near = get_close_matches(word, list(commands), n=1)
    meant = f" Did you mean `{near[0]}`?" if near else ""
    return f"I do not know how to {word[:40]}; `help` tells what one can do.{meant}"


def counted(words: str) -> tuple[int | None, str]:
    """`3 arrows` is three of them."""
    first, _, rest = words.strip().partition(" ")
    is_count = rest and first.isascii() and first.isdigit() and len(first) < 10
    return (int(first), rest.strip()) if is_count else (None, words.strip())


def parted(words: str, *between: str) -> tuple[str, str]:
    """What stands before and after one of these words: `lamp in sack`."""
    for word in between:
        first, found, second = words.partition(f" {word} ")
        if found:
            return first.strip(), second.strip()
    return words.strip(), ""


def named(entries: Iterable[Any], name: str, missing: str = "there is no {} here") -> Any:
    """The one that is called so; else the first that has the word in its name. `missing` says that there is none.

    Raises: `NotFound`.
    """
    wanted, listed = _without_article(name), list(entries)
    exact = [one for one in listed if _without_article(one["name"]) == wanted]
    near = [one for one in listed if wanted and wanted in one["name"].casefold()]
    if not exact and not near:
        raise NotFound(missing.format(name.strip() or "such thing"))
    return (exact or near)[0]


def _without_article(name: str) -> str:
    first, _, rest = name.strip().casefold().partition(" ")
    return rest.strip() if rest and first in ("a", "an", "the") else name.strip().casefold()


def plain(text: str) -> str:
    """One line that a terminal shows as it is: what others wrote must not steer it, nor pass for another line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
