"""A tree of nodes written as files that `folder.Importer` makes the same tree of."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from squinney.content import Node, Nodes, Photos
from squinney.content.surface.folders import links
from squinney.content.surface.folders.front_matter import notes_of, written, written_notes
from squinney.content.surface.folders.importer import ASSET
from squinney.content.surface.folders.plan import INDEX
from squinney.patterns.paging import all_items

EXTENSIONS = {
    "image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp",
    "video/mp4": ".mp4", "video/webm": ".webm",
}  # fmt: skip
FOLDERS = ("folder", "blog", "gallery")


def export_folder(nodes: Nodes, photos: Photos, parent: Node | None, folder: Path) -> Counter[str]:
    """Write everything below `parent`."""
    export = _Export(nodes, photos)
    export.find_files(parent, folder)
    export.write(parent, folder)
    return export.counts


class _Export:
    """One export: first where each picture goes, so that texts can name it from anywhere; then the files."""

    def __init__(self, nodes: Nodes, photos: Photos) -> None:
        self._nodes = nodes
        self._photos = photos
        self._files: dict[str, Path] = {}
        self.counts: Counter[str] = Counter()

    def find_files(self, parent: Node | None, folder: Path) -> None:
        """Note where the pictures below `parent` go."""
        for child, name, inner in self._children(parent, folder):
            if child["metadata"]["detail"].get("file_id"):
                self._files[child["_id"]] = folder / name
            if inner:
                self.find_files(child, inner)

    def write(self, parent: Node | None, folder: Path) -> None:
        """Write what is below `parent`."""
        folder.mkdir(parents=True, exist_ok=True)
        for child, name, inner in self._children(parent, folder):
            if inner:
                self.write(child, inner)
            if child["_id"] in self._files:
                self._write_picture(child, folder / name)
                self.counts["pictures"] += 1
            elif inner and not name:
                _write(inner / INDEX, written(child, self._text(child, inner)))
                self.counts["folders"] += 1
            else:
                _write(folder / name, written(child, self._text(child, folder)))
                self.counts["pages"] += 1

    def _children(self, parent: Node | None, folder: Path) -> Iterator[tuple[Node, str, Path | None]]:
        """Each child, the name of its file, and the folder of what is below it."""
        taken = {name for child in self._all(parent) for name in _names(child)}
        for child in self._all(parent):
            metadata = child["metadata"]
            has_folder = metadata["type"] in FOLDERS or metadata["num_children"]
            inner = metadata["slug"]
            while inner in taken:  # the page `a` is the file `a.md`, which is a fine name for a folder too
                inner += "_"  # which no slug ends in, and import drops
            yield child, next(iter(_names(child)), ""), folder / inner if has_folder else None

    def _all(self, parent: Node | None) -> Iterator[Node]:
        return all_items(lambda cursor: self._nodes.children(parent, cursor=cursor, limit=200))

    def _write_picture(self, node: Node, path: Path) -> None:
        with path.open("wb") as file:
            for piece in self._photos.open(node, "original").read():
                file.write(piece)
        _write(notes_of(path), written_notes(node))

    def _text(self, node: Node, folder: Path) -> str:
        """The text, with pictures named by their files."""

        def address_for(address: str) -> str | None:
            path, rest = links.split(address)
            file = self._files.get(path.removeprefix(ASSET)) if path.startswith(ASSET) else None
            return quote(Path(os.path.relpath(file, folder)).as_posix()) + rest if file else None

        return links.rewritten(node["metadata"]["detail"].get("text", ""), address_for)


def _names(node: Node) -> list[str]:
    """The files that a node is written to; none for a folder, whose file is inside."""
    metadata = node["metadata"]
    if content_type := metadata["detail"].get("content_type"):
        name = f"{metadata['slug']}{EXTENSIONS[content_type]}"
        return [name, notes_of(Path(name)).name]
    return [] if metadata["type"] in FOLDERS else [f"{metadata['slug']}.md"]


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
