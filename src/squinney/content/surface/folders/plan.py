"""What a folder would become: read and checked whole before anything is written, so that no import stops half-way."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from squinney.content import Author, Node
from squinney.content.files import media
from squinney.content.nodes import rules
from squinney.content.surface.folders.front_matter import Front, notes_of, read, read_notes
from squinney.errors import Invalid

MEDIA: dict[str, Literal["photo", "video"]] = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".gif", ".webp"), "photo"),
    **dict.fromkeys((".mp4", ".webm"), "video"),
}
TEXTS = (".md", ".markdown")
INDEX = "_index.md"
HEAD_BYTES = 64
MOST_PROBLEMS = 20


@dataclass
class Entry:
    """A file or folder, and the node that it becomes: its type, slug and words, and what is inside."""

    path: Path
    type: str
    slug: str
    title: str
    front: Front
    has_notes: bool = True
    inside: list[Entry] = field(default_factory=list)
    node: Node | None = None
    is_new: bool = False

    @property
    def is_media(self) -> bool:
        """Whether it is a file of a picture or film."""
        return self.path.suffix.lower() in MEDIA and not self.path.is_dir()

    @property
    def folder(self) -> Path:
        """From where its links lead."""
        return self.path if self.path.is_dir() else self.path.parent

    def detail(self, text: str) -> dict[str, str]:
        """The detail with that text."""
        return {
            "text": text,
            **{name: self.front.word(name) for name in rules.TYPES[self.type].model_fields if name != "text"},
        }

    def check(self, author: Author) -> None:
        """Raises: `Invalid` for whatever the node would be refused for."""
        rules.checked_slug(self.slug)
        rules.checked_title(self.title)
        rules.checked_author({**author, "name": self.front.word("author", author["name"])})
        rules.checked_detail(self.type, self.detail(self.front.word("text") if self.is_media else self.front.text))
        _ = (self.front.tags, self.front.access, self.front.date, self.front.is_draft)
        if self.is_media:
            with self.path.open("rb") as stream:
                media.content_type(stream.read(HEAD_BYTES), self.type)


class Plan:
    """A folder, read. `skipped` names the files that become nothing."""

    def __init__(self, root: Path, author: Author, parent: Node | None) -> None:
        self._root = root
        self._author = author
        self._problems: list[str] = []
        self.skipped: list[str] = []
        self.entries = self._read(root, parent["metadata"]["type"] if parent else "folder")
        if self._problems:
            more = len(self._problems) - MOST_PROBLEMS
            told = [*self._problems[:MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
            raise Invalid("; ".join(told), field="file")

    def _read(self, folder: Path, parent_type: str) -> list[Entry]:
        """Pictures first, so that most texts can show them at once; then texts, then folders."""
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_symlink())
        files = [path for path in paths if path.is_file() and path.name != INDEX]
        made: dict[str, Entry] = {}
        pictures = [path for path in files if path.suffix.lower() in MEDIA]
        texts = [path for path in files if path.suffix.lower() in TEXTS]
        notes = {notes_of(picture) for picture in pictures}
        self.skipped += [self._name(path) for path in files if path not in {*pictures, *texts, *notes}]
        for path in (*pictures, *texts):
            with self._naming(path):
                self._add(made, _picture(path) if path in pictures else _text(path, parent_type))
        for path in (path for path in paths if path.is_dir()):
            with self._naming(path):
                entry = made.get(slug_of(path.name))
                if entry is None or (path / INDEX).is_file():
                    entry = self._add(made, _folder(path))
                entry.inside = self._read(path, entry.type)
        return list(made.values())

    def _add(self, made: dict[str, Entry], entry: Entry) -> Entry:
        if entry.slug in made:
            raise Invalid(f"another file of this folder has the address {entry.slug!r}", field="slug")
        entry.check(self._author)
        made[entry.slug] = entry
        return entry

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    @contextmanager
    def _naming(self, path: Path) -> Iterator[None]:
        try:
            yield
        except Invalid as error:
            self._problems.append(f"{self._name(path)}: {error.message}")


def _picture(path: Path) -> Entry:
    notes = read_notes(path)
    front = notes or Front({})
    title = front.word("title", path.stem)
    return Entry(path, MEDIA[path.suffix.lower()], slug_of(path.stem), title, front, has_notes=notes is not None)


def _text(path: Path, parent_type: str) -> Entry:
    front = read(path)
    usual = "blog-entry" if parent_type == "blog" else "basic-page"
    return Entry(path, front.type(usual), slug_of(front.word("slug", path.stem)), _title(front, path.stem), front)


def _folder(path: Path) -> Entry:
    front = read(path / INDEX) if (path / INDEX).is_file() else Front({})
    return Entry(path, front.type("folder"), slug_of(path.name), _title(front, path.stem), front)


def _title(front: Front, name: str) -> str:
    return front.word("title", name.replace("-", " ").capitalize())


def slug_of(name: str) -> str:
    """A file's name as a slug. One without a letter that an address may have gets one that is always the same."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9._-]+", "-", plain).strip("-._")[:150].strip("-._")
    return slug or f"n-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
