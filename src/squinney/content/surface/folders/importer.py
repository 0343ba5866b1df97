"""A folder of Markdown files and pictures made into a tree of nodes.

What is below a page or a picture is in a folder of its name beside it; any other folder may have an `_index.md`. What
is said of a picture is in a file beside it: `dawn.jpg.yaml`. `folder_export` writes the same.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast

from squinney.clock import utcnow
from squinney.content import Author, Node, Nodes, Photos, SlugTaken
from squinney.content.files.uploads import sha256_as_stored
from squinney.content.surface.folders import links
from squinney.content.surface.folders.front_matter import Front
from squinney.content.surface.folders.plan import INDEX, Entry, Plan
from squinney.errors import Invalid

ASSET = "/site/-/asset/"


class Importer:
    """Makes nodes of a folder. What is there already is brought up to date, so that it can be run again."""

    def __init__(self, nodes: Nodes, photos: Photos, author: Author) -> None:
        self._nodes = nodes
        self._photos = photos
        self._author = author
        self._addresses: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.skipped: list[str] = []

    def import_folder(self, folder: Path, parent: Node | None) -> None:
        """Everything in a folder, below `parent`. New texts are drafts until the files that they name are there too.

        Atomic: each node by itself; nothing is written before all files are read and found to be right.
        After a crash: drafts, and links that lead nowhere yet; run it again.
        Raises: `Invalid` naming the files that are wrong.
        """
        plan = Plan(folder, self._author, parent)
        self.skipped = plan.skipped
        if plan.skipped:
            self.counts["skipped"] = len(plan.skipped)
        self._place(plan.entries, parent, f"/site{self._nodes.path_of(parent)}" if parent else "/site")
        self._write(plan.entries)

    # ---- first every node gets its place, then its words: only then is known where each link leads ----

    def _place(self, entries: list[Entry], parent: Node | None, above: str) -> None:
        for entry in entries:
            path = f"{above}/{entry.slug}"
            with _named(entry.path):
                entry.node = self._picture(entry, parent) if entry.is_media else self._draft(entry, parent)
            address = f"{ASSET}{entry.node['_id']}" if entry.is_media else path
            self._addresses[os.path.normpath(entry.path)] = address
            if entry.path.is_dir():
                self._addresses[os.path.normpath(entry.path / INDEX)] = address
            self._place(entry.inside, entry.node, path)

    def _draft(self, entry: Entry, parent: Node | None) -> Node:
        detail = entry.detail(self._text(entry))
        tags, author = entry.front.tags or [], self._author_of(entry.front)
        try:
            node = self._nodes.create(parent, entry.slug, entry.type, entry.title, author, detail, tags)
        except SlugTaken:
            return self._nodes.get(parent, entry.slug)
        entry.is_new = True
        return node

    def _write(self, entries: list[Entry]) -> None:
        for entry in entries:
            if not entry.is_media:
                with _named(entry.path):
                    self._save(entry, cast(Node, entry.node))
            self._write(entry.inside)

    def _save(self, entry: Entry, known: Node) -> None:
        node = self._updated(known, entry.front, entry.title, entry.detail(self._text(entry)))
        self.counts["created" if entry.is_new else "unchanged" if node == known else "updated"] += 1

    def _text(self, entry: Entry) -> str:
        """The text, its links leading to where the files have gone, as far as that is known."""

        def address_for(address: str) -> str | None:
            if not links.is_local(address):
                return None
            name, rest = links.split(address)
            known = self._addresses.get(os.path.normpath(entry.folder / name))
            return known + rest if known else None

        return links.rewritten(entry.front.text, address_for)

    def _author_of(self, front: Front) -> Author:
        return {"_id": self._author["_id"], "name": front.word("author", self._author["name"])}

    def _updated(self, known: Node, front: Front, title: str, detail: dict[str, str]) -> Node:
        node, metadata = known, known["metadata"]
        if metadata["title"] != title or any(metadata["detail"].get(name) != value for name, value in detail.items()):
            node = self._nodes.edit(node, metadata["nonce"], {"title": title, "detail": detail}, by=self._author)
        return self._settled(node, front)

    def _settled(self, node: Node, front: Front) -> Node:
        """With the tags, the access and the time that the file gives it; what it does not name is left alone."""
        metadata, tags = node["metadata"], front.tags
        if tags is not None and {*tags} != {*metadata["tags"]}:
            node = self._nodes.change_tags(node, add=tags, remove={*metadata["tags"]} - {*tags})
        if front.access and front.access != metadata.get("access"):
            node = self._nodes.set_access(node, front.access)
        published = node["metadata"]["published"]
        if front.is_draft:
            return node if published is None else self._nodes.unpublish(node)
        if published is None or (front.date and front.date != published):
            return self._nodes.publish(node, front.date)
        return node

    def _picture(self, entry: Entry, parent: Node | None) -> Node:
        front, kind = entry.front, cast(Literal["photo", "video"], entry.type)
        detail = entry.detail(front.word("text"))
        published = None if front.is_draft or front.access else front.date or utcnow()
        with entry.path.open("rb") as stream:
            try:
                node = self._photos.upload(
                    stream, parent, entry.slug, author=self._author_of(front), title=entry.title, type=kind,
                    detail=detail, tags=front.tags or [], published=published,
                )  # fmt: skip
            except SlugTaken:
                return self._known_picture(entry, self._nodes.get(parent, entry.slug), detail)
        self.counts["pictures"] += 1
        return self._settled(node, front)

    def _known_picture(self, entry: Entry, known: Node, detail: dict[str, str]) -> Node:
        node, done = known, "unchanged"
        with entry.path.open("rb") as stream:
            if known["metadata"]["detail"].get("sha256") != sha256_as_stored(stream, entry.type):
                stream.seek(0)
                node, done = self._photos.replace(stream, known, by=self._author), "replaced"
        if entry.has_notes:
            after = self._updated(node, entry.front, entry.title, detail)
            node, done = after, done if after == node else "updated"
        self.counts[done] += 1
        return node


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{path.name}: {error.message}", **error.details) from error


def find_parent(nodes: Nodes, path: str) -> Node | None:
    """The node to import below or export from; the top for "/".

    Raises: `UnknownNode`.
    """
    return nodes.by_path(path) if path.strip("/") else None
