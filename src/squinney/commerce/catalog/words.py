"""Text as it is compared, sorted and searched: without case and accents, and cut up where a script has no spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

LONGEST_FOLDED = 500  # with the longest SKU beside it, a cursor that fits into a URL

# Marks above and below Latin, Greek and Cyrillic letters. Those of other scripts are letters of their own, or vowels.
_ACCENTS = dict.fromkeys(range(0x0300, 0x0370))
# Letters that Unicode does not take apart, though people look for them under these.
_PLAIN = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe"})
# Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def folded(text: str) -> str:
    """The form in which titles are compared and sorted: composed alike, without case or accents.

    Cut, because a letter may become eighteen, and cursors hold the title that a page ends with.
    """
    return _folded(text)[:LONGEST_FOLDED]


def _folded(text: str) -> str:
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFKC", apart.translate(_ACCENTS)).translate(_PLAIN)


def parts_of(texts: Iterable[str]) -> str:
    """Each letter, and each two neighbours, of what is written without spaces in these texts; empty where nothing is.

    The server's word search takes a run of such letters for one word: by these it finds what is inside.
    """
    runs = [run for text in texts for run in _UNSPACED.findall(_folded(text))]
    return " ".join(dict.fromkeys(part for run in runs for part in (*run, *_pairs(run))))


def with_parts(words: str) -> str:
    """A search for words, with the parts of those that are written without spaces. Phrases and exclusions stay."""
    if '"' in words:
        return words
    wanted = [word for word in words.split() if not word.startswith("-")]
    runs = [run for word in wanted for run in _UNSPACED.findall(_folded(word))]
    parts = [part for run in runs for part in (_pairs(run) if len(run) > 1 else [run])]
    return " ".join([words, *dict.fromkeys(parts)])


def _pairs(run: str) -> Iterator[str]:
    return (run[start : start + 2] for start in range(len(run) - 1))
