"""The plan of an import: all files are read and checked before anything is written, so no import stops half-way."""

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

from squinney.content.documents import Author
from squinney.content.files import media
from squinney.content.folders.front_matter import Front, metadata_file, read, read_metadata
from squinney.content.nodes import rules
from squinney.content.nodes.documents import Node
from squinney.errors import Invalid

MEDIA: dict[str, Literal["photo", "video"]] = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".gif", ".webp"), "photo"),
    **dict.fromkeys((".mp4", ".webm"), "video"),
}
# guard: Markdown files have two extensions
TEXTS = (".md", ".markdown")
INDEX = "_index.md"
HEAD_BYTES = 64
MAX_PROBLEMS = 20


@dataclass
class Entry:
    """A file or folder, and the node that is made of it."""

    path: Path
    type: str
    slug: str
    title: str
    front: Front
    has_metadata: bool = True
    children: list[Entry] = field(default_factory=list)

    @property
    def is_media(self) -> bool:
        """Whether the entry is a picture or video file."""
        return self.path.suffix.lower() in MEDIA and not self.path.is_dir()

    @property
    def folder(self) -> Path:
        """The folder to which the links of the text are relative."""
        return self.path if self.path.is_dir() else self.path.parent

    def detail(self, text: str) -> dict[str, str]:
        """Return the node's detail with this text."""
        return {
            "text": text,
            **{name: self.front.text_of(name) for name in rules.TYPES[self.type].model_fields if name != "text"},
        }

    def check(self, author: Author) -> None:
        """Raise `Invalid` for everything for which the node would be refused."""
        rules.checked_slug(self.slug)
        rules.checked_title(self.title)
        rules.checked_author({**author, "name": self.front.text_of("author", author["name"])})
        rules.checked_detail(self.type, self.detail(self.front.text_of("text") if self.is_media else self.front.text))
        _ = (self.front.tags, self.front.access, self.front.date, self.front.is_draft)  # each checks its field
        if self.is_media:
            with self.path.open("rb") as stream:
                media.content_type(stream.read(HEAD_BYTES), self.type)


class ImportPlan:
    """The entries of a folder; raises `Invalid` naming all wrong files. `skipped` are files that are not imported."""

    def __init__(self, root: Path, author: Author, parent: Node | None) -> None:
        self._root = root
        self._author = author
        self._problems: list[str] = []
        self.skipped: list[str] = []
        self.entries = self._read(root, parent["metadata"]["type"] if parent else "folder")
        # guard: nothing is written if any file is wrong
        if self._problems:
            more = len(self._problems) - MAX_PROBLEMS
            listed = [*self._problems[:MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
            raise Invalid("; ".join(listed), field="file")

    def _read(self, folder: Path, parent_type: str) -> list[Entry]:
        """Return the entries of a folder: pictures first, so that texts can show them at once, then texts, folders."""
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_symlink())
        files = [path for path in paths if path.is_file() and path.name != INDEX]
        entries: dict[str, Entry] = {}
        pictures = [path for path in files if path.suffix.lower() in MEDIA]
        texts = [path for path in files if path.suffix.lower() in TEXTS]
        metadata = {metadata_file(picture) for picture in pictures}
        # guard: skipped files are reported
        self.skipped += [self._name(path) for path in files if path not in {*pictures, *texts, *metadata}]
        for path in (*pictures, *texts):
            with self._noting_problems(path):
                self._add(entries, _picture(path) if path in pictures else _text(path, parent_type))
        for path in (path for path in paths if path.is_dir()):
            with self._noting_problems(path):
                entry = entries.get(slug_of(path.name))
                if entry is None or (path / INDEX).is_file():
                    entry = self._add(entries, _folder(path))
                entry.children = self._read(path, entry.type)
        return list(entries.values())

    def _add(self, entries: dict[str, Entry], entry: Entry) -> Entry:
        if entry.slug in entries:
            raise Invalid(f"another file of this folder has the slug {entry.slug!r}", field="slug")
        entry.check(self._author)
        entries[entry.slug] = entry
        return entry

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    @contextmanager
    def _noting_problems(self, path: Path) -> Iterator[None]:
        try:
            yield
        except Invalid as error:
            self._problems.append(f"{self._name(path)}: {error.message}")


def _picture(path: Path) -> Entry:
    metadata = read_metadata(path)
    front = metadata or Front({})
    title = front.text_of("title", path.stem)
    return Entry(path, MEDIA[path.suffix.lower()], slug_of(path.stem), title, front, has_metadata=metadata is not None)


def _text(path: Path, parent_type: str) -> Entry:
    front = read(path)
    default = "blog-entry" if parent_type == "blog" else "basic-page"
    return Entry(path, front.type(default), slug_of(front.text_of("slug", path.stem)), _title(front, path.stem), front)


def _folder(path: Path) -> Entry:
    front = read(path / INDEX) if (path / INDEX).is_file() else Front({})
    return Entry(path, front.type("folder"), slug_of(path.name), _title(front, path.stem), front)


def _title(front: Front, name: str) -> str:
    return front.text_of("title", name.replace("-", " ").capitalize())


def slug_of(name: str) -> str:
    """Return a slug for a file's name or a title; without Latin letters or digits, a slug made of its digest."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9._-]+", "-", plain).strip("-._")[:150].strip("-._")
    # guard: a name without Latin letters or digits gets a slug
    return slug or f"n-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
