"""Export of a tree of nodes as files, of which `Importer` makes the same tree."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from squinney.content.folders import links
from squinney.content.folders.front_matter import file_text, metadata_file, metadata_text
from squinney.content.folders.importer import ASSET_URL
from squinney.content.folders.plan import INDEX
from squinney.content.nodes.documents import Node
from squinney.content.nodes.nodes import Nodes
from squinney.content.photos.photos import Photos
from squinney.patterns.paging import all_items

EXTENSIONS = {
    "image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp",
    "video/mp4": ".mp4", "video/webm": ".webm",
}  # fmt: skip
FOLDERS = ("folder", "blog", "gallery")


def export_folder(nodes: Nodes, photos: Photos, parent: Node | None, folder: Path) -> Counter[str]:
    """Write the whole tree below `parent` to a folder; return the numbers of files."""
    export = _Export(nodes, photos)
    export.write(parent, folder)
    return export.counts


class _Export:
    """One export. The paths of all pictures are found first, so that texts can link to them; then files are written."""

    def __init__(self, nodes: Nodes, photos: Photos) -> None:
        self._nodes = nodes
        self._photos = photos
        self._pictures: dict[str, Path] = {}  # the path of each picture, by node id
        self.counts: Counter[str] = Counter()

    def write(self, parent: Node | None, folder: Path) -> None:
        """Write the files of all nodes below `parent`."""
        for node, file, _ in self._walk(parent, folder):
            if node["metadata"]["detail"].get("file_id"):
                self._pictures[node["_id"]] = file
        folder.mkdir(parents=True, exist_ok=True)
        for node, file, inner in self._walk(parent, folder):
            if inner:
                inner.mkdir(exist_ok=True)
            if node["_id"] in self._pictures:
                self._write_picture(node, file)
                self.counts["pictures"] += 1
            else:
                _write(file, file_text(node, self._text(node, file.parent)))
                self.counts["folders" if file.name == INDEX else "pages"] += 1

    def _walk(self, parent: Node | None, folder: Path) -> Iterator[tuple[Node, Path, Path | None]]:
        """Yield each node below `parent`, its file, and the folder for its children; parents come first."""
        taken = {name for child in self._all(parent) for name in _names(child)}
        for child in self._all(parent):
            metadata = child["metadata"]
            inner = metadata["slug"]
            # guard: an exported folder never has the name of a file next to it
            while inner in taken:  # a folder `a.md` must not collide with the file of the page `a`
                inner += "_"  # no slug ends with this, and the import removes it
            has_folder = metadata["type"] in FOLDERS or metadata["num_children"]
            yield child, folder / next(iter(_names(child)), f"{inner}/{INDEX}"), folder / inner if has_folder else None
            if has_folder:
                yield from self._walk(child, folder / inner)

    def _all(self, parent: Node | None) -> Iterator[Node]:
        return all_items(lambda cursor: self._nodes.children(parent, cursor=cursor, limit=200))

    def _write_picture(self, node: Node, path: Path) -> None:
        with path.open("wb") as file:
            for piece in self._photos.open(node, "original").read():
                file.write(piece)
        _write(metadata_file(path), metadata_text(node))

    def _text(self, node: Node, folder: Path) -> str:
        """Return the text, with links to pictures as relative paths."""

        def file_path(link: str) -> str | None:
            path, rest = links.split(link)
            file = self._pictures.get(path.removeprefix(ASSET_URL)) if path.startswith(ASSET_URL) else None
            return quote(Path(os.path.relpath(file, folder)).as_posix()) + rest if file else None

        return links.rewritten(node["metadata"]["detail"].get("text", ""), file_path)


def _names(node: Node) -> list[str]:
    """Return the names of the node's files; none for a folder, whose `_index.md` is in the folder."""
    metadata = node["metadata"]
    if content_type := metadata["detail"].get("content_type"):
        name = f"{metadata['slug']}{EXTENSIONS[content_type]}"
        return [name, metadata_file(Path(name)).name]
    return [] if metadata["type"] in FOLDERS else [f"{metadata['slug']}.md"]


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
