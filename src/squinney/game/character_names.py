"""The rules for names of characters: what is seen is what is stored, and no two look alike. Uses no database."""

from __future__ import annotations

import unicodedata

from squinney import checks
from squinney.errors import Invalid

MAX_NAME = 60
# Characters of other categories than the invisible ones, which are shown as nothing or as a blank.
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me")
# Japanese and Korean are written with letters of several scripts.
WRITTEN_TOGETHER = (frozenset({"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "CJK"}), frozenset({"HANGUL", "CJK"}))
# Letters, in lower case, that have the shape of a Latin letter in lower or in upper case, and signs like `'` and `-`.
LOOKALIKES = str.maketrans(
    "авеёкмнорстухѕіїјһԁԛԝ" + "αβεζηικμνορτυχ" + "ıɑɡⅼ℮" + "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ" + "‘’ʼ`" + "‐‒–−",
    "abeekmhopctyxsiijhdqw" + "abezhikmnoptyx" + "iagle" + "abcdefghijklmnoprstuvwyz" + "''''" + "----",
)

# What looks like `l` or `o`, before upper and lower case are folded: a capital `I` looks like `l`, an `i` does not.
SHAPES = str.maketrans("I1|" + "\u0399\u0406\u04c0\u04cf" + "0", "lll" + "llll" + "o")


def checked_name(name: str) -> str:
    """Return the name in Unicode's compatible form (NFKC).

    Raises: `Invalid` for a name that could imitate another one or control a terminal: with invisible characters,
    marks that no letter takes, or letters of several scripts.
    """
    checks.text(name, "name", min_length=1, max_length=MAX_NAME, pattern=r"\S(.*\S)?", like="without spaces around it")
    # guard: a name has only printable characters
    if any(is_unseen(character) for character in name):
        raise Invalid("name must contain only printable characters", field="name")
    normal = unicodedata.normalize("NFKC", name)
    if any(is_unseen(character) or _is_loose_mark(character) for character in normal):
        raise Invalid("name must contain only printable characters", field="name")
    scripts = {_script(character) for character in normal if character.isalpha()}
    # guard: a name has letters of one script
    if len(scripts) > 1 and not any(scripts <= together for together in WRITTEN_TOGETHER):
        raise Invalid("name must not mix letters of several scripts", field="name", scripts=sorted(scripts))
    return checks.text(
        normal, "name", min_length=1, max_length=MAX_NAME, pattern=r"\S(.*\S)?", like="without spaces around it"
    )


def name_key(name: str) -> str:
    """Return a key that is equal for names that look alike. For a name in ASCII with single spaces it is `casefold`."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    # guard: names that look alike are one name
    return " ".join(folded.translate(LOOKALIKES).split())


def name_keys(name: str) -> list[str]:
    """Return the keys by which a name may be found: the present one, and that of older versions of this program."""
    return list(dict.fromkeys([name_key(name), name.casefold()]))


def shape_key(name: str) -> str:
    """Return a key that is equal for names of the same shape: `Ian` and `1an`, `Bob` and `B0b`, `Barn` and `Bam`.

    It keeps a capital `L` and a small `i` apart from `l`, as they look different. It begins with a space, as no name
    and no `name_key` does.
    """
    # guard: names of one shape are one name
    shape = unicodedata.normalize("NFKC", name).translate(SHAPES)
    shape = "L".join(part.casefold() for part in shape.split("L")).translate(LOOKALIKES)
    return " " + " ".join(shape.replace("rn", "m").replace("vv", "w").split())


def reserved_keys(name: str) -> list[str]:
    """Return the keys that a new character reserves. One found by a key has the name; the shape finds nobody."""
    return [name_key(name), shape_key(name)]


def is_unseen(character: str) -> bool:
    """Return whether a character is invisible, a control character, or a space other than the plain one."""
    category = unicodedata.category(character)
    return category in UNSEEN or character in BLANK or (category == "Zs" and character != " ")


def _is_loose_mark(character: str) -> bool:
    """Return whether the character is a mark for any letter; those that belong on a letter are part of it in NFKC."""
    return unicodedata.name(character, "").startswith(("COMBINING ", "VARIATION SELECTOR"))


def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split()[0]
