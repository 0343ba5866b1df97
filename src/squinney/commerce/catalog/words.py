"""Normalizes text for sorting and searching: without case and accents, and split where a script has no spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

MAX_FOLDED_LENGTH = 500  # so that a cursor with the longest title and SKU fits into a URL

# The accents of Latin, Greek and Cyrillic letters. In other scripts, combining marks are letters or vowels.
_ACCENTS = dict.fromkeys(range(0x0300, 0x0370))
# Letters that Unicode does not decompose, with the letters under which people search for them.
_BASES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe"})
# Runs of Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean letters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def folded(text: str) -> str:
    """Return the form in which titles are compared and sorted: normalized, without case or accents.

    The result is cut off, because one letter may become eighteen, and cursors contain the last title of a page.
    """
    return _folded(text)[:MAX_FOLDED_LENGTH]


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFKC", decomposed.translate(_ACCENTS)).translate(_BASES)


def parts_of(texts: Iterable[str]) -> str:
    """Return the letters, and the pairs of adjacent letters, of all runs in scripts without spaces; else empty.

    The server's text index treats a run of such letters as one word; the parts make its inside searchable.
    """
    runs = [run for text in texts for run in _UNSPACED.findall(_folded(text))]
    return " ".join(dict.fromkeys(part for run in runs for part in (*run, *_pairs(run))))


def with_parts(words: str) -> str:
    """Add to a search the parts of its words in scripts without spaces. Phrases and exclusions are not changed."""
    if '"' in words:
        return words
    wanted = [word for word in words.split() if not word.startswith("-")]
    runs = [run for word in wanted for run in _UNSPACED.findall(_folded(word))]
    parts = [part for run in runs for part in (_pairs(run) if len(run) > 1 else [run])]
    return " ".join([words, *dict.fromkeys(parts)])


def _pairs(run: str) -> Iterator[str]:
    return (run[start : start + 2] for start in range(len(run) - 1))
