"""Import of a folder of Markdown files and pictures as a tree of nodes.

The children of a page or picture are in a folder with the same name next to it. Any other folder may have an
`_index.md` with its own text. The metadata of `dawn.jpg` is in `dawn.jpg.yaml`. `export` writes the same files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast

from squinney.clock import utcnow
from squinney.content.documents import Author
from squinney.content.files.uploads import sha256_as_stored
from squinney.content.folders import links
from squinney.content.folders.front_matter import Front
from squinney.content.folders.plan import INDEX, Entry, ImportPlan
from squinney.content.nodes.documents import Node
from squinney.content.nodes.nodes import Nodes
from squinney.content.photos.photos import Photos
from squinney.errors import Invalid, SlugTaken

ASSET_URL = "/site/-/asset/"


class Importer:
    """Imports a folder. Existing nodes are updated, so an import can be repeated."""

    def __init__(self, nodes: Nodes, photos: Photos, author: Author) -> None:
        self._nodes = nodes
        self._photos = photos
        self._author = author
        self._urls: dict[str, str] = {}  # by the path of the imported file
        self.counts: Counter[str] = Counter()
        self.skipped: list[str] = []

    def import_folder(self, folder: Path, parent: Node | None) -> None:
        """Import all files of a folder below `parent`. New pages stay drafts until the files they link to are imported.

        Atomic: each node separately; nothing is written before all files are read and checked.
        After a crash: drafts and broken links may remain; import again.
        Raises: `Invalid` naming the files that are wrong.
        """
        plan = ImportPlan(folder, self._author, parent)
        self.skipped = plan.skipped
        if plan.skipped:
            self.counts["skipped"] = len(plan.skipped)
        url = f"/site{self._nodes.path_of(parent)}" if parent else "/site"
        # Nodes are created first and texts are written afterwards, when the URL of every file is known.
        for entry, before, is_new in list(self._create(plan.entries, parent, url)):
            with _naming(entry.path):
                node = self._updated(before, entry.front, entry.title, entry.detail(self._text(entry)))
            self.counts["created" if is_new else "unchanged" if node == before else "updated"] += 1

    def _create(self, entries: list[Entry], parent: Node | None, parent_url: str) -> Iterator[tuple[Entry, Node, bool]]:
        """Create the nodes that are missing, and yield each text with its node and whether that is new."""
        for entry in entries:
            url = file_url = f"{parent_url}/{entry.slug}"
            with _naming(entry.path):
                if entry.is_media:
                    node = self._picture(entry, parent)
                    file_url = f"{ASSET_URL}{node['_id']}"
                else:
                    node, is_new = self._draft(entry, parent)
                    yield entry, node, is_new
            self._urls[os.path.normpath(entry.path)] = file_url
            if entry.path.is_dir():
                self._urls[os.path.normpath(entry.path / INDEX)] = file_url
            yield from self._create(entry.children, node, url)

    def _draft(self, entry: Entry, parent: Node | None) -> tuple[Node, bool]:
        detail = entry.detail(self._text(entry))
        tags, author = entry.front.tags or [], self._author_of(entry.front)
        try:
            return self._nodes.create(parent, entry.slug, entry.type, entry.title, author, detail, tags), True
        except SlugTaken:
            return self._nodes.get(parent, entry.slug), False

    def _text(self, entry: Entry) -> str:
        """Return the text; links to files that are already imported get the new URLs."""

        def new_url(link: str) -> str | None:
            if not links.is_local(link):
                return None
            name, rest = links.split(link)
            url = self._urls.get(os.path.normpath(entry.folder / name))
            return url + rest if url else None

        return links.rewritten(entry.front.text, new_url)

    def _author_of(self, front: Front) -> Author:
        return {"_id": self._author["_id"], "name": front.text_of("author", self._author["name"])}

    def _updated(self, node: Node, front: Front, title: str, detail: dict[str, str]) -> Node:
        metadata = node["metadata"]
        if metadata["title"] != title or any(metadata["detail"].get(name) != value for name, value in detail.items()):
            node = self._nodes.edit(node, metadata["nonce"], {"title": title, "detail": detail}, by=self._author)
        return self._with_settings(node, front)

    def _with_settings(self, node: Node, front: Front) -> Node:
        """Set the tags, access and time of publication that the front matter names; return the node."""
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
        detail = entry.detail(front.text_of("text"))
        published = None if front.is_draft or front.access else front.date or utcnow()
        with entry.path.open("rb") as stream:
            try:
                node = self._photos.upload(
                    stream, parent, entry.slug, author=self._author_of(front), title=entry.title, type=kind,
                    detail=detail, tags=front.tags or [], published=published,
                )  # fmt: skip
            except SlugTaken:
                return self._update_picture(entry, self._nodes.get(parent, entry.slug), detail)
        self.counts["pictures"] += 1
        return self._with_settings(node, front)

    def _update_picture(self, entry: Entry, node: Node, detail: dict[str, str]) -> Node:
        done = "unchanged"
        with entry.path.open("rb") as stream:
            if node["metadata"]["detail"].get("sha256") != sha256_as_stored(stream, entry.type):
                stream.seek(0)
                node, done = self._photos.replace(stream, node, by=self._author), "replaced"
        if entry.has_metadata:
            after = self._updated(node, entry.front, entry.title, detail)
            node, done = after, done if after == node else "updated"
        self.counts[done] += 1
        return node


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file's name to `Invalid` errors."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{path.name}: {error.message}", **error.details) from error


def find_parent(nodes: Nodes, path: str) -> Node | None:
    """Return the node at a path, or raise `UnknownNode`; "/" gives None, the top level."""
    return nodes.by_path(path) if path.strip("/") else None
