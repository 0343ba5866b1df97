"""A folder of Markdown files and pictures as a tree of nodes, and back."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from squinney.clock import utcnow
from squinney.content import Author, Node, Nodes, Photos, SlugTaken
from squinney.content.rules import TYPES
from squinney.errors import Invalid

PICTURES: dict[str, Literal["photo", "video"]] = {
    ".jpg": "photo",
    ".jpeg": "photo",
    ".png": "photo",
    ".gif": "photo",
    ".webp": "photo",
}
FILMS: dict[str, Literal["photo", "video"]] = {".mp4": "video", ".webm": "video"}
EXTENSIONS = {
    "image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp",
    "video/mp4": ".mp4", "video/webm": ".webm",
}  # fmt: skip
FRONT = re.compile(r"\A---\s*\n(.*?)\n---\s*\n?(.*)\Z", re.DOTALL)
INDEX = "_index.md"
ASSET = "/site/-/asset/"
MOST_TEXT_BYTES = 2_000_000


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
        addresses = {
            entry.name: f"{ASSET}{node['_id']}"
            for entry in entries
            if entry.is_file() and entry.suffix.lower() in {**PICTURES, **FILMS}
            for node in [self._picture(entry, parent)]
        }
        for entry in entries:
            if entry.is_dir():
                self.import_folder(entry, self._folder(entry, parent))
            elif entry.suffix.lower() == ".md" and entry.name != INDEX:
                self._page(entry, parent, addresses)

    def _folder(self, folder: Path, parent: Node | None) -> Node:
        about, text = _read(folder / INDEX) if (folder / INDEX).is_file() else ({}, "")
        return self._save(folder, parent, slug_of(folder.name), about, text, "folder")

    def _page(self, file: Path, parent: Node | None, addresses: dict[str, str]) -> Node:
        about, text = _read(file)
        for name, address in addresses.items():
            text = text.replace(f"]({name})", f"]({address})")
        usual = "blog-entry" if parent and parent["metadata"]["type"] == "blog" else "basic-page"
        return self._save(file, parent, slug_of(str(about.get("slug") or file.stem)), about, text, usual)

    def _save(self, path: Path, parent: Node | None, slug: str, about: dict[str, Any], text: str, usual: str) -> Node:
        type_ = str(about.get("type") or usual)
        if type_ not in TYPES:
            raise Invalid(f"{path.name}: type must be one of {', '.join(TYPES)}", field="type")
        title = str(about.get("title") or path.stem.replace("-", " ").capitalize())
        detail = {"text": text, "summary": str(about.get("summary") or "")}
        tags = [str(tag) for tag in about.get("tags") or []]
        published = None if about.get("draft") else _time(about.get("date"), path) or utcnow()
        author = cast(Author, {"_id": self._author["_id"], "name": str(about.get("author") or self._author["name"])})
        try:
            node = self._nodes.create(parent, slug, type_, title, author, detail, tags, published=published)
        except SlugTaken:
            return self._update(self._nodes.get(parent, slug), title, detail)
        self.counts["created"] += 1
        return node

    def _update(self, node: Node, title: str, detail: dict[str, str]) -> Node:
        known = node["metadata"]
        same = known["title"] == title and all(known["detail"].get(name) == value for name, value in detail.items())
        if same:
            self.counts["unchanged"] += 1
            return node
        self.counts["updated"] += 1
        return self._nodes.edit(node, known["nonce"], {"title": title, "detail": detail}, by=self._author)

    def _picture(self, file: Path, parent: Node | None) -> Node:
        slug = slug_of(file.stem)
        kind = {**PICTURES, **FILMS}[file.suffix.lower()]
        with file.open("rb") as stream:
            try:
                node = self._photos.upload(
                    stream,
                    parent,
                    slug,
                    author=self._author,
                    title=file.stem,
                    type=kind,
                    published=utcnow(),
                )
            except SlugTaken:
                self.counts["unchanged"] += 1
                return self._nodes.get(parent, slug)
            except Invalid as error:
                raise Invalid(f"{file.name}: {error.message}", field="file") from error
        self.counts["pictures"] += 1
        return node


def export_folder(nodes: Nodes, photos: Photos, parent: Node | None, folder: Path) -> Counter[str]:
    """Write everything below `parent` as files that `Importer` makes the same tree of."""
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    children = list(_children(nodes, parent))
    names = {f"{ASSET}{child['_id']}": _file_name(child) for child in children if _file_name(child)}
    for child in children:
        metadata = child["metadata"]
        if name := _file_name(child):
            _write_file(photos, child, folder / name)
            counts["pictures"] += 1
        elif metadata["type"] in ("folder", "blog", "gallery"):
            inner = folder / metadata["slug"]
            counts += export_folder(nodes, photos, child, inner)
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
    metadata = node["metadata"]
    about: dict[str, Any] = {"title": metadata["title"], "type": metadata["type"], "author": metadata["author"]["name"]}
    if metadata["tags"]:
        about["tags"] = metadata["tags"]
    if metadata["detail"].get("summary"):
        about["summary"] = metadata["detail"]["summary"]
    if metadata["published"]:
        about["date"] = metadata["published"].isoformat()
    else:
        about["draft"] = True
    text = metadata["detail"].get("text", "")
    for address, name in names.items():
        text = text.replace(f"]({address})", f"]({name})")
    return f"---\n{yaml.safe_dump(about, sort_keys=False, allow_unicode=True)}---\n{text}"


def slug_of(name: str) -> str:
    """A file's name as a slug."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9._-]+", "-", plain).strip("-._")[:150].strip("-._")
    if not slug:
        raise Invalid(f"{name!r} has no letter or digit to make an address of", field="slug")
    return slug


def _is_ours(entry: Path) -> bool:
    return not entry.name.startswith(".") and not entry.is_symlink()


def _read(file: Path) -> tuple[dict[str, Any], str]:
    """The front matter and the text behind it."""
    if file.stat().st_size > MOST_TEXT_BYTES:
        raise Invalid(f"{file.name} is larger than {MOST_TEXT_BYTES} bytes", field="file", limit=MOST_TEXT_BYTES)
    try:
        whole = file.read_text(encoding="utf-8")
        found = FRONT.match(whole)
        about = yaml.safe_load(found[1]) if found else {}
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise Invalid(f"{file.name} cannot be read: {error}", field="file") from None
    if about is not None and not isinstance(about, dict):
        raise Invalid(f"{file.name}: the front matter must be names and values", field="file")
    return about or {}, found[2] if found else whole


def _time(value: Any, path: Path) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise Invalid(f"{path.name}: date must be a date", field="date") from None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime.combine(value, time(), UTC) if isinstance(value, date) else None


def find_parent(nodes: Nodes, path: str) -> Node | None:
    """The node to import below or export from; the top for "/".

    Raises: `UnknownNode`.
    """
    return nodes.by_path(path) if path.strip("/") else None
