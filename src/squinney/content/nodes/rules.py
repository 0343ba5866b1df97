"""Validation of nodes, and the transaction steps that change them. Pure functions, without a database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from squinney import checks
from squinney.content.documents import MAX_TEXT_LENGTH, Author
from squinney.content.errors import NotEmpty
from squinney.content.markup import limits
from squinney.content.nodes.documents import MAX_TAGS, NODES, REVISIONS, Node, Revision
from squinney.content.removals import old_file_step, removal_step
from squinney.errors import Invalid, SlugTaken, SquinneyError
from squinney.mongo.schema import Document
from squinney.patterns.ids import new_id
from squinney.patterns.nonces import new_nonce
from squinney.transactions import Stale, Step

SLUG = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
TAG = r"[^\s,/]+(?: [^\s,/]+)*"
# Fields of a detail that only `Photos` sets, all at once; edits and restores do not change them.
FILE_KEYS = ("file_id", "content_type", "length", "sha256", "width", "height", "web")
# Counters and comments are not part of a version.
UNVERSIONED = ("num_children", "num_comments", "num_comment_pages", "comments", "discussion")


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


def changed_tags(add: list[str], remove: list[str]) -> Document:
    """Return an aggregation expression: the node's tags without `remove`, then the new ones of `add`."""
    kept = {"$filter": {"input": "$metadata.tags", "cond": {"$not": [{"$in": ["$$this", {"$literal": remove}]}]}}}
    new = {"$filter": {"input": {"$literal": add}, "cond": {"$not": [{"$in": ["$$this", kept]}]}}}
    return {"$concatArrays": [kept, new]}


def published_since(now: datetime) -> Document:
    """Return an aggregation expression: the node's time of publication if that is in the past, else `now`."""
    is_published = {"$and": [{"$gt": ["$metadata.published", None]}, {"$lte": ["$metadata.published", now]}]}
    return {"$cond": [is_published, "$metadata.published", now]}


def id_of(node: Any) -> str:
    """Return the node's id, given the document or the id itself, or raise `Invalid`."""
    node_id = node.get("_id") if isinstance(node, Mapping) else node
    return checks.identifier(node_id, "node")


def filter_of(node: Node) -> Document:
    """Return the filter that finds the node on one shard."""
    return {"_id": node["_id"], **route(node["metadata"])}


def route(metadata: Mapping[str, Any]) -> Document:
    """Return the shard-key fields of a node."""
    return {"metadata.parent_id": metadata["parent_id"], "metadata.slug": metadata["slug"]}


def create_steps(node: Node, parent: Node | None) -> list[Step]:
    """Set the node's parent; return the steps that insert it and its first revision, and count it in the parent."""
    node["metadata"]["parent_id"] = parent["_id"] if parent else None
    taken = slug_taken(node["metadata"]["slug"])
    return [
        *([children_step(parent, 1)] if parent else []),
        Step(NODES, node["_id"], insert=node, route=route(node["metadata"]), refused=lambda _: taken),
        revision_step(node, node["metadata"]["author"], node["metadata"]["created"]),
    ]


def slug_taken(slug: str) -> SlugTaken:
    """Return the error for a slug that a sibling already has."""
    return SlugTaken(f"the parent already has a child with the slug {slug!r}", slug=slug)


def children_step(parent: Node, change: int) -> Step:
    """Return the step that adds `change` to the parent's count of children, if the parent was not moved or removed."""
    return Step(
        NODES,
        parent["_id"],
        route=route(parent["metadata"]),
        update={"$inc": {"metadata.num_children": change}},
        refused=lambda _: Stale("the parent was moved or removed"),
    )


def revision_step(node: Node, by: Author, at: datetime, *, session: str | None = None) -> Step:
    """Return the step that inserts the revision for the node's current version."""
    metadata = node["metadata"]
    revision: Revision = {
        "_id": f"{node['_id']}:{metadata['nonce']}",
        "node_id": node["_id"],
        "nonce": metadata["nonce"],
        "version": metadata["version"],
        "at": at,
        "author": by,
        "session": session,
        "metadata": {name: value for name, value in metadata.items() if name not in UNVERSIONED},
    }
    return Step(REVISIONS, revision["_id"], insert=revision, route={"node_id": node["_id"], "nonce": metadata["nonce"]})


def changed(node: Node, changes: Mapping[str, Any], at: datetime, nonce: str) -> Node:
    """Return the node with the changes applied, the next version number and the new nonce."""
    metadata: dict[str, Any] = dict(node["metadata"])
    detail = {**metadata["detail"], **changes.get("detail", {})}
    metadata.update({name: value for name, value in changes.items() if name != "detail"})
    metadata.update(detail=detail, nonce=nonce, version=metadata["version"] + 1, updated=at)
    return {"_id": node["_id"], "metadata": metadata}  # type: ignore[typeddict-item]


def edit_step(before: Node, after: Node) -> Step:
    """Return the step that replaces one version of a node by the next, if the nonce still matches."""
    new, old = after["metadata"], before["metadata"]
    fields = ("nonce", "version", "updated", "title", "detail")
    return Step(
        NODES,
        before["_id"],
        route=route(old),
        # guard: an edit requires the nonce of the version it was based on
        guard={"metadata.nonce": old["nonce"]},
        update={"$set": {f"metadata.{name}": new[name] for name in fields}},  # type: ignore[literal-required]
        refused=lambda _: Stale("the node has changed"),
    )


def move_step(before: Node, after: Node) -> Step:
    """Return the step that moves a node to its new parent and slug; the unique index refuses a taken slug."""
    fields = ("parent_id", "slug", "nonce", "version", "updated")
    new, old = after["metadata"], before["metadata"]

    def error_for(current: Document | None) -> SquinneyError:
        if current and current["metadata"]["nonce"] == old["nonce"]:
            return slug_taken(new["slug"])
        return Stale("the node has changed")

    return Step(
        NODES,
        before["_id"],
        # guard: a move requires the nonce of the version it was based on
        guard={"metadata.nonce": old["nonce"], **route(old)},
        update={"$set": {f"metadata.{name}": new[name] for name in fields}},  # type: ignore[literal-required]
        refused=error_for,
    )


def unmoved_steps(folders: Sequence[Node], *, without: Iterable[str]) -> list[Step]:
    """Return steps which require that no folder was moved, so that two concurrent moves cannot create a cycle.

    Folders whose id is in `without` already have a step.
    """
    excluded = set(without)
    return [
        Step(
            NODES,
            node["_id"],
            # guard: folders above the new parent are not moved during a move
            guard=route(node["metadata"]),
            refused=lambda _: Stale("a folder was moved in the meantime"),
        )
        for node in folders
        if node["_id"] not in excluded
    ]


def remove_steps(node: Node, parent: Node | None, now: datetime) -> list[Step]:
    """Return the steps that delete a node and schedule its history, comments and files for removal."""

    def error_for(current: Document | None) -> SquinneyError:
        if current is None:  # not at its old path; it may be at another
            return Stale("the node was moved or removed")
        if current["metadata"]["num_children"]:
            return NotEmpty(
                "the node has children: remove or move them first", children=current["metadata"]["num_children"]
            )
        return Stale("the node has changed")

    guard = {
        # guard: a node with children is not removed
        "metadata.num_children": 0,
        "metadata.nonce": node["metadata"]["nonce"],
        # guard: a node is not removed while its discussion is frozen
        "metadata.discussion.frozen": None,
    }
    steps = [
        Step(NODES, node["_id"], route=route(node["metadata"]), guard=guard, delete=True, refused=error_for),
        removal_step("node", node["_id"], now),
    ]
    if parent:
        steps.append(children_step(parent, -1))
    if file_id := node["metadata"]["detail"].get("file_id"):
        steps.append(old_file_step(file_id, now))
    return steps
