"""Validation of nodes. Pure functions, without a database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from squinney import checks
from squinney.content.documents import MAX_TEXT_LENGTH, Author
from squinney.content.markup import limits
from squinney.content.nodes.documents import MAX_TAGS, Node
from squinney.errors import Invalid
from squinney.mongo.schema import Document
from squinney.patterns.ids import new_id
from squinney.patterns.nonces import new_nonce

SLUG = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
TAG = r"[^\s,/]+(?: [^\s,/]+)*"
# Fields of a detail that only `Photos` sets, all at once; edits and restores do not change them.
FILE_KEYS = ("file_id", "content_type", "length", "sha256", "width", "height", "web")


class Text(BaseModel):
    """The detail of pages, blog entries and lists. `text` is CommonMark."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = ""
    summary: str = Field("", max_length=1_000)


class Media(BaseModel):
    """The fields of a photo's or video's detail that users edit. `text` is CommonMark."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = ""
    alt: str = Field("", max_length=500)


TYPES: dict[str, type[BaseModel]] = {
    "basic-page": Text,
    "blog-entry": Text,
    "folder": Text,
    "blog": Text,
    "gallery": Text,
    "photo": Media,
    "video": Media,
}


def checked_type(type_: Any) -> str:
    """Return the node type, or raise `Invalid` if it is unknown."""
    if not isinstance(type_, str) or type_ not in TYPES:
        raise Invalid(f"type must be one of {', '.join(TYPES)}", field="type")
    return type_


def checked_slug(slug: Any) -> str:
    """Return the slug, or raise `Invalid` if it is not an allowed one."""
    like = "lowercase letters and digits, with dots, dashes or underscores between them"
    return checks.text(slug, "slug", min_length=1, max_length=150, pattern=SLUG, like=like)


def checked_title(title: Any) -> str:
    """Return the title, stripped, or raise `Invalid`: a title is one line of 1 to 300 characters."""
    return checks.text(title, "title", min_length=1, max_length=300, pattern=r"[^\r\n]*\S[^\r\n]*").strip()


def checked_author(author: Any, field: str = "author") -> Author:
    """Return the author, or raise `Invalid`: an author has exactly `_id` and `name`."""
    if not isinstance(author, Mapping) or set(author) != {"_id", "name"}:
        raise Invalid(f"{field} must have _id and name", field=field)
    return {
        "_id": checks.identifier(author["_id"], f"{field}._id"),
        "name": checks.text(author["name"], f"{field}.name", min_length=1, max_length=100, pattern=r"[^\r\n]+"),
    }


def checked_tags(tags: Any) -> list[str]:
    """Return the tags in lowercase and without duplicates, or raise `Invalid`."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise Invalid("tags must be a list", field="tags")
    names = [checks.text(tag, "tags", max_length=100).strip().lower() for tag in tags]
    unique = list(dict.fromkeys(checks.text(name, "tags", min_length=1, max_length=50, pattern=TAG) for name in names))
    if len(unique) > MAX_TAGS:
        raise Invalid(f"tags may have at most {MAX_TAGS} items", field="tags", limit=MAX_TAGS)
    return unique


def checked_detail(type_: str, detail: Any) -> Document:
    """Return the complete detail for a node of this type, or raise `Invalid` for the first wrong field."""
    if not isinstance(detail, Mapping):
        raise Invalid("detail must be an object", field="detail")
    try:
        model = TYPES[type_].model_validate(dict(detail))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(["detail", *(str(part) for part in first["loc"])])
        raise Invalid(f"{field}: {first['msg']}", field=field) from None
    for name, value in model:
        checks.text(value, f"detail.{name}", max_length=MAX_TEXT_LENGTH)
    limits.checked(model.text, "detail.text", limits.PAGE)  # type: ignore[attr-defined]
    return model.model_dump()


def checked_changes(type_: str, changes: Any) -> Document:
    """Return the changes of an edit (a title, some fields of the detail, or both), or raise `Invalid`."""
    if not isinstance(changes, Mapping) or not changes or set(changes) - {"title", "detail"}:
        raise Invalid("changes must have title, detail or both, and nothing else", field="changes")
    checked: Document = {}
    if "title" in changes:
        checked["title"] = checked_title(changes["title"])
    if "detail" in changes:
        whole = checked_detail(type_, changes["detail"])
        checked["detail"] = {name: whole[name] for name in changes["detail"]}
    return checked


def new_node(
    now: datetime,
    slug: str,
    type_: str,
    title: str,
    author: Author,
    detail: Mapping[str, Any],
    tags: Iterable[str],
    published: datetime | None,
    kept_for: str | None = None,
) -> Node:
    """Return a new node that is not stored yet and has no parent, or raise `Invalid`."""
    checked_type(type_)
    node: Node = {
        "_id": new_id(),
        "metadata": {
            "nonce": new_nonce(),
            "version": 1,
            "type": type_,
            "parent_id": None,
            "slug": checked_slug(slug),
            "title": checked_title(title),
            "created": now,
            "updated": now,
            "published": checks.time(published, "published") if published is not None else None,
            "author": checked_author(author),
            "tags": checked_tags(tags),
            "detail": checked_detail(type_, detail),
            "num_children": 0,
            "num_comments": 0,
            "num_comment_pages": 0,
        },
    }
    if kept_for is not None:
        node["metadata"]["kept_for"] = checks.text(kept_for, "kept_for", min_length=1, max_length=50)
    return node


def id_of(node: Any) -> str:
    """Return the node's id, given the document or the id itself, or raise `Invalid`."""
    node_id = node.get("_id") if isinstance(node, Mapping) else node
    return checks.identifier(node_id, "node")
