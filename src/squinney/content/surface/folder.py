"""A folder of Markdown files and pictures as a tree of nodes, and back.

What is below a page or a picture is in a folder of its name beside it; any other folder may have an `_index.md`. What
is said of a picture is in a file beside it: `dawn.jpg.yaml`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from squinney.clock import utcnow
from squinney.content import Author, Node, Nodes, Photos, SlugTaken
from squinney.content.surface.front_matter import Front, notes_of, read, read_notes, written, written_notes
from squinney.errors import Invalid

MEDIA: dict[str, Literal["photo", "video"]] = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".gif", ".webp"), "photo"),
    **dict.fromkeys((".mp4", ".webm"), "video"),
}
EXTENSIONS = {
    "image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp",
    "video/mp4": ".mp4", "video/webm": ".webm",
}  # fmt: skip
FOLDERS = ("folder", "blog", "gallery")
INDEX = "_index.md"
ASSET = "/site/-/asset/"


class Importer:
    """Makes nodes of a folder. What is there already is brought up to date, so that it can be run again."""

    def __init__(self, nodes: Nodes, photos: Photos, author: Author) -> None:
        self._nodes = nodes
        self._photos = photos
        self._author = author
        self.counts: Counter[str] = Counter()

    def import_folder(self, folder: Path, parent: Node | None) -> None:
        """Everything in a folder, below `parent`: pictures first, so that texts can show them.

        Raises: `Invalid` naming the file.
        """
        entries = sorted(entry for entry in folder.iterdir() if _is_ours(entry))
        files = [entry for entry in entries if entry.is_file() and entry.name != INDEX]
        made: dict[str, Node] = {}
        addresses: dict[str, str] = {}
        for file in (file for file in files if file.suffix.lower() in MEDIA):
            with _named(file):
                slug = _fresh(slug_of(file.stem), made)
                made[slug] = self._picture(file, parent, slug)
                addresses[file.name] = f"{ASSET}{made[slug]['_id']}"
        for file in (file for file in files if file.suffix.lower() == ".md"):
            with _named(file):
                front = read(file)
                slug = _fresh(slug_of(front.word("slug", file.stem)), made)
                made[slug] = self._page(file, front, parent, slug, addresses)
        for inner in (entry for entry in entries if entry.is_dir()):
            with _named(inner):
                slug = slug_of(inner.name)
                if slug not in made or (inner / INDEX).is_file():
                    made[_fresh(slug, made)] = self._folder(inner, parent, slug)
            self.import_folder(inner, made[slug])

    def _folder(self, folder: Path, parent: Node | None, slug: str) -> Node:
        front = read(folder / INDEX) if (folder / INDEX).is_file() else Front({})
        return self._save(folder, parent, slug, front, front.text, "folder")

    def _page(self, file: Path, front: Front, parent: Node | None, slug: str, addresses: dict[str, str]) -> Node:
        text = front.text
        for name, address in addresses.items():
            text = text.replace(f"]({name})", f"]({address})")
        usual = "blog-entry" if parent and parent["metadata"]["type"] == "blog" else "basic-page"
        return self._save(file, parent, slug, front, text, usual)

    def _save(self, path: Path, parent: Node | None, slug: str, front: Front, text: str, usual: str) -> Node:
        type_ = front.type(usual)
        title = front.word("title", path.stem.replace("-", " ").capitalize())
        detail = {"text": text, **_more(type_, front)}
        published = None if front.is_draft else front.date or utcnow()
        author, tags = self._author_of(front), front.tags or []
        try:
            first = None if front.access else published  # nobody sees it before it is said who may
            node = self._nodes.create(parent, slug, type_, title, author, detail, tags, published=first)
        except SlugTaken:
            return self._update(self._nodes.get(parent, slug), front, title, detail)
        self.counts["created"] += 1
        return self._settled(node, front)

    def _author_of(self, front: Front) -> Author:
        return {"_id": self._author["_id"], "name": front.word("author", self._author["name"])}

    def _update(self, known: Node, front: Front, title: str, detail: dict[str, str]) -> Node:
        node, metadata = known, known["metadata"]
        if metadata["title"] != title or any(metadata["detail"].get(name) != value for name, value in detail.items()):
            node = self._nodes.edit(node, metadata["nonce"], {"title": title, "detail": detail}, by=self._author)
        node = self._settled(node, front)
        self.counts["unchanged" if node == known else "updated"] += 1
        return node

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

    def _picture(self, file: Path, parent: Node | None, slug: str) -> Node:
        notes = read_notes(file)
        front = notes or Front({})
        title, detail = front.word("title", file.stem), {name: front.word(name) for name in ("text", "alt")}
        published = None if front.is_draft or front.access else front.date or utcnow()
        with file.open("rb") as stream:
            try:
                node = self._photos.upload(
                    stream, parent, slug, author=self._author_of(front), title=title, type=MEDIA[file.suffix.lower()],
                    detail=detail, tags=front.tags or [], published=published,
                )  # fmt: skip
            except SlugTaken:
                node = self._nodes.get(parent, slug)
                if node["metadata"]["detail"].get("sha256") != _sha256(file):
                    stream.seek(0)
                    node = self._photos.replace(stream, node, by=self._author)
                    self.counts["replaced"] += 1
                elif notes is None:
                    self.counts["unchanged"] += 1
                return self._update(node, notes, title, detail) if notes else node
        self.counts["pictures"] += 1
        return self._settled(node, front)


def _more(type_: str, front: Front) -> dict[str, str]:
    name = "alt" if type_ in MEDIA.values() else "summary"
    return {name: front.word(name)}


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{path.name}: {error.message}", **error.details) from error


def _fresh(slug: str, made: dict[str, Node]) -> str:
    if slug in made:
        raise Invalid(f"another file of this folder has the address {slug!r}", field="slug")
    return slug


def export_folder(nodes: Nodes, photos: Photos, parent: Node | None, folder: Path) -> Counter[str]:
    """Write everything below `parent` as files that `Importer` makes the same tree of."""
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    children = list(_children(nodes, parent))
    names = {f"{ASSET}{child['_id']}": _file_name(child) for child in children if _file_name(child)}
    for child in children:
        metadata = child["metadata"]
        inner = folder / metadata["slug"]
        if metadata["type"] in FOLDERS or metadata["num_children"]:
            counts += export_folder(nodes, photos, child, inner)
        if name := _file_name(child):
            _write_file(photos, child, folder / name)
            notes_of(folder / name).write_text(written_notes(child), encoding="utf-8")
            counts["pictures"] += 1
        elif metadata["type"] in FOLDERS:
            (inner / INDEX).write_text(_written(child, {}), encoding="utf-8")
            counts["folders"] += 1
        else:
            (folder / f"{metadata['slug']}.md").write_text(_written(child, names), encoding="utf-8")
            counts["pages"] += 1
    return counts


def _children(nodes: Nodes, parent: Node | None) -> Iterator[Node]:
    cursor = None
    while True:
        page = nodes.children(parent, cursor=cursor, limit=200)
        yield from page.items
        if (cursor := page.next) is None:
            return


def _file_name(node: Node) -> str:
    content_type = node["metadata"]["detail"].get("content_type")
    return f"{node['metadata']['slug']}{EXTENSIONS[content_type]}" if content_type else ""


def _write_file(photos: Photos, node: Node, path: Path) -> None:
    with path.open("wb") as file:
        for piece in photos.open(node, "original").read():
            file.write(piece)


def _written(node: Node, names: dict[str, str]) -> str:
    text = node["metadata"]["detail"].get("text", "")
    for address, name in names.items():
        text = text.replace(f"]({address})", f"]({name})")
    return written(node, text)


def slug_of(name: str) -> str:
    """A file's name as a slug."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9._-]+", "-", plain).strip("-._")[:150].strip("-._")
    if not slug:
        raise Invalid(f"{name!r} has no letter or digit to make an address of", field="slug")
    return slug


def _is_ours(entry: Path) -> bool:
    return not entry.name.startswith(".") and not entry.is_symlink()


def find_parent(nodes: Nodes, path: str) -> Node | None:
    """The node to import below or export from; the top for "/".

    Raises: `UnknownNode`.
    """
    return nodes.by_path(path) if path.strip("/") else None
