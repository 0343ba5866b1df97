"""What a page shows: of a document, only the values that are on the page are shown behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html.parser import HTMLParser
from textwrap import shorten
from typing import Any

from bson import ObjectId

from squinney.mongo.schema import Document
from squinney.service.behind.recording import PRIVATE, Sent, is_known_name

INTERNAL = (PRIVATE, "squinney.")
SEEN_ATTRIBUTES = {"href", "src", "alt", "title", "value", "datetime", "aria-label", "placeholder"}
NOT_SEEN = {"script", "style", "head", "template"}
MIN_LENGTH = 3  # of a value; shorter ones are on a page by chance
MIN_TELLING_LENGTH = 5  # a text of this length on the page shows that it is about this document
MIN_TELLING_ID_LENGTH = 3
MIN_CENTS = 10
MAX_DOCUMENTS = 12
MAX_VALUES = 6
MAX_VALUE_LENGTH = 100
CUT = " …"


class PageText(HTMLParser):
    """The text of a page as its viewer sees it, and where its links lead."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._hidden = 0
        self.feed(html)
        self.close()
        self._text = f" {' '.join(' '.join(self._parts).split())} "

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in NOT_SEEN
        # guard: a hidden field, such as the token of a form, is not what a page shows
        if not self._hidden and ("type", "hidden") not in attrs:
            self._parts += [value for name, value in attrs if name in SEEN_ATTRIBUTES and value]

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in NOT_SEEN))

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data)

    def __contains__(self, text: str) -> bool:
        words = " ".join(text.split())
        return bool(words) and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", self._text) is not None

    def shown(self, value: Any) -> str:
        """Return how the page shows a value; an empty string if it does not."""
        # guard: a short number is on many pages by chance, where it means something else
        return next((text for text in _texts_of(value) if len(text) >= MIN_LENGTH and text in self), "")


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, ObjectId):
        yield str(value)
    elif isinstance(value, datetime):
        yield from (f"{value:%Y-%m-%d %H:%M}", f"{value:%Y-%m-%dT%H:%M}", f"{value:%Y-%m-%d}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from (f"{value}", f"{value:,}")
        if isinstance(value, int) and abs(value) >= MIN_CENTS:
            yield f"{value / 100:,.2f}"


@dataclass(frozen=True)
class ShownDocument:
    """A document of which the page shows something: the shown values by field, and how many fields it does not show."""

    collection: str
    id: str
    fields: Mapping[str, Sequence[str]]
    others: int


def shown_documents(sent: Sequence[Sent], page: PageText) -> list[ShownDocument]:
    """Return the documents that the page shows, each once, with only the values that it shows."""
    documents: dict[tuple[str, str], ShownDocument] = {}
    for command in sent:
        # guard: documents of people, sessions and keys are not shown
        if command.collection.startswith(INTERNAL):
            continue
        for document in command.documents:
            shown = _shown(command.collection, document, page)
            if shown and shown.fields and len(documents) < MAX_DOCUMENTS:
                documents.setdefault((command.collection, repr(document.get("_id"))), shown)
    return list(documents.values())


def _shown(collection: str, document: Document, page: PageText) -> ShownDocument | None:
    # guard: a document that the page does not show is not shown
    if not _is_on(page, document):
        return None
    fields = {
        name: values
        for name, value in document.items()
        if name != "_id" and is_known_name(name) and (values := _values_on(page, value))
    }
    others = sum(name != "_id" and name not in fields for name in document)
    return ShownDocument(collection, page.shown(document.get("_id")), fields, others)


def _is_on(page: PageText, document: Document) -> bool:
    identifier = page.shown(document.get("_id"))
    if len(identifier) >= MIN_TELLING_ID_LENGTH:
        return True
    telling = (leaf for leaf in _leaves(document) if isinstance(leaf, str) and len(leaf) >= MIN_TELLING_LENGTH)
    return any(leaf in page for leaf in telling)


def _values_on(page: PageText, value: Any) -> Sequence[str]:
    shown = dict.fromkeys(
        shorten(text, MAX_VALUE_LENGTH, placeholder=CUT) for leaf in _leaves(value) if (text := page.shown(leaf))
    )
    return list(shown)[:MAX_VALUES]


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the values inside; names are not values, but in a mapping they may be, so these are left out."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value
