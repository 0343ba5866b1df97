"""Comments over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from squinney.content import (
    Comment,
    DiscussionFull,
    Nodes,
    StrategyCannot,
    UnknownComment,
    UnknownNode,
    Viewer,
)
from squinney.content.comments.documents import MOST_COMMENT, Flag, Strategy
from squinney.content.surface.dependencies import Persons, Queue, Talk, Tree
from squinney.content.surface.viewer import As, comment_html
from squinney.errors import Forbidden
from squinney.http.bodies import AcceptsUnchangedFields, Body, IgnoresReadOnlyFields
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import IdempotencyKey
from squinney.http.problems import responses
from squinney.http.response_models import list_of, model_of, page_of, signed_page
from squinney.http.routes import OneThreadRoute
from squinney.patterns.paging import Page
from squinney.transactions import Busy, KeyReused, StillRunning

router = APIRouter(prefix="/api/comments", tags=["comments"], route_class=OneThreadRoute)

Slug = Annotated[str, Query(min_length=1, max_length=200, examples=["34db8bda"])]


async def readable(node_id: str, tree: Tree, viewer: As) -> str:
    """The node's id; whoever is asked for may read it.

    Raises: `UnknownNode`.
    """
    if not viewer.trusted:
        await run_in_threadpool(tree.by_id, node_id, viewer=viewer)
    return node_id


async def editable(node_id: str, tree: Tree, viewer: As) -> str:
    """The node's id; whoever is asked for may edit it.

    Raises: `UnknownNode`, `Forbidden`.
    """
    if not viewer.trusted:
        await run_in_threadpool(tree.editable, node_id, viewer)
    return node_id


NodeId = Annotated[str, Depends(readable)]
EditableId = Annotated[str, Depends(editable)]
By = Annotated[str | None, Query(min_length=1, max_length=200, description="Only if this is the author")]


class NewComment(IgnoresReadOnlyFields, Body):
    """What posting takes; `author` and `slug`, as GET gives them, say who and in reply to what as well."""

    READ_ONLY = frozenset({"id", "node_id", "parent_id", "slug", "posted", "html", "num_replies", "edited", "deleted"})
    author_id: str = Field(min_length=1, max_length=200)
    author_name: str = Field(min_length=1, max_length=100)
    text: str = Field(min_length=1, max_length=MOST_COMMENT)
    reply_to: str | None = Field(None, max_length=200)

    @model_validator(mode="before")
    @classmethod
    def _as_get_says_it(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        taken = dict(given)
        if isinstance(slug := taken.pop("slug", None), str) and "/" in slug:
            taken = {"reply_to": slug.rpartition("/")[0], **taken}
        author = taken.get("author")
        if isinstance(author, dict) and author.keys() == {"id", "name"}:
            taken.pop("author")
            taken = {"author_id": author["id"], "author_name": author["name"], **taken}
        return taken


class NewText(AcceptsUnchangedFields, Body):
    """What an edit takes. Everything else that GET gives may stand beside."""

    READ_ONLY = frozenset({"posted", "html", "num_replies", "edited", "deleted"})
    UNCHANGEABLE = frozenset({"id", "node_id", "parent_id", "slug", "author"})
    text: str = Field(min_length=1, max_length=MOST_COMMENT)


class Conversion(Body):
    """Which strategy to convert to."""

    to: Strategy


class NewFlag(Body):
    """Who flags, and why."""

    by: str = Field(min_length=1, max_length=200)
    reason: str = Field("", max_length=500)


class Decision(Body):
    """What a moderator decides."""

    by: str = Field(min_length=1, max_length=200)
    verdict: Literal["keep", "remove"]


CommentModel = model_of(Comment, without=["full_slug", "version"], html=str)
FlagModel = model_of(Flag, without=["_id"], comment=(CommentModel | None, None))


class Count(BaseModel):
    """How many comments a node has, and where they are."""

    count: int
    strategy: Strategy


class Erased(BaseModel):
    """What was erased."""

    comments: int
    flags: int
    names: int


async def _showing(request: Request) -> Callable[[Comment], Any]:
    """What shows a comment; one whose text takes long to render holds nobody else up."""
    return lambda comment: {**comment, "html": str(comment_html(request, comment["text"]))}


Out = Annotated[Callable[[Comment], Any], Depends(_showing)]


def _require_own_name(viewer: Viewer, user_id: str) -> None:
    """On somebody's behalf one speaks, and asks, in their name alone."""
    if viewer.user_id is not None and viewer.user_id != user_id:
        raise Forbidden("on somebody's behalf, in their name only")


def _may_read(tree: Nodes, node_id: str, viewer: Viewer) -> bool:
    try:
        tree.by_id(node_id, viewer=viewer)
    except UnknownNode:
        return False
    return True


READ = responses(UnknownNode, UnknownComment, StrategyCannot)
WRITE = responses(UnknownNode, UnknownComment, Forbidden, Busy)
JUDGE = responses(UnknownNode, UnknownComment, Forbidden)
POST = responses(UnknownNode, UnknownComment, Forbidden, StrategyCannot, DiscussionFull, KeyReused, StillRunning, Busy)


@router.post("/nodes/{node_id}", status_code=201, response_model=CommentModel, responses=POST)
def post_comment(talk: Talk, out: Out, viewer: As, node_id: NodeId, body: NewComment, key: IdempotencyKey) -> Any:
    """Add a comment or a reply."""
    _require_own_name(viewer, body.author_id)
    author: Any = {"_id": body.author_id, "name": body.author_name}
    return out(talk.post(node_id, author, body.text, body.reply_to, key=key))


@router.get("/nodes/{node_id}", response_model=page_of(CommentModel), responses=READ)
def list_comments(
    talk: Talk,
    out: Out,
    sign: SignCursor,
    node_id: NodeId,
    cursor: Cursor = None,
    limit: Limit = 50,
    order: Literal["chronological", "threaded"] = "chronological",
    at: Annotated[str | None, Query(max_length=200, description="Begin at the comment with this slug")] = None,
) -> Any:
    """Some comments, oldest first or by threads."""
    return signed_page(talk.page(node_id, cursor, limit, order, at=at).map(out), sign)


@router.get("/nodes/{node_id}/count", response_model=Count, responses=READ)
def count_comments(talk: Talk, node_id: NodeId) -> Any:
    """How many there are."""
    return {"count": talk.count(node_id), "strategy": talk.strategy_of(node_id)}


@router.get("/nodes/{node_id}/comment", response_model=CommentModel, responses=READ)
def get_comment(talk: Talk, out: Out, node_id: NodeId, slug: Slug) -> Any:
    """One comment, by its slug."""
    return out(talk.get(node_id, slug))


@router.get("/nodes/{node_id}/discussion", response_model=list_of(CommentModel), responses=READ)
def get_discussion(talk: Talk, out: Out, node_id: NodeId, slug: Slug) -> Any:
    """A comment and all below it."""
    return [out(comment) for comment in talk.discussion(node_id, slug)]


@router.patch("/nodes/{node_id}/comment", response_model=CommentModel, responses=WRITE)
def edit_comment(talk: Talk, out: Out, viewer: As, node_id: NodeId, slug: Slug, body: NewText, by: By = None) -> Any:
    """Change a comment's text; on somebody's behalf, one of their own."""
    body.require_unchanged(lambda: out(talk.get(node_id, slug)), CommentModel)
    return out(talk.edit(node_id, slug, body.text, by=viewer.user_id or by))


@router.delete("/nodes/{node_id}/comment", status_code=204, responses=WRITE)
def delete_comment(talk: Talk, viewer: As, node_id: NodeId, slug: Slug, by: By = None) -> None:
    """Delete a comment, on somebody's behalf one of their own; one with replies keeps its place."""
    talk.delete(node_id, slug, by=viewer.user_id or by)


@router.post("/nodes/{node_id}/convert", response_model=Count, responses={**WRITE, **responses(DiscussionFull)})
def convert_discussion(talk: Talk, node_id: EditableId, body: Conversion) -> Any:
    """Move a discussion to another storage strategy; on behalf of somebody who may edit the node."""
    talk.convert(node_id, body.to)
    return count_comments(talk, node_id)


@router.post("/nodes/{node_id}/flags", status_code=201, response_model=FlagModel, responses=JUDGE)
def flag_comment(queue: Queue, viewer: As, node_id: NodeId, slug: Slug, body: NewFlag) -> Any:
    """Put a comment in the moderators' queue."""
    _require_own_name(viewer, body.by)
    return queue.flag(node_id, slug, body.by, body.reason)


@router.post("/nodes/{node_id}/decision", response_model=FlagModel, responses=JUDGE)
def decide(queue: Queue, viewer: As, node_id: EditableId, slug: Slug, body: Decision) -> Any:
    """Keep or remove a flagged comment; on behalf of somebody who may edit the node."""
    _require_own_name(viewer, body.by)
    return queue.decide(node_id, slug, body.verdict, by=body.by, viewer=viewer)


@router.get("/queue", response_model=page_of(FlagModel), responses=responses())
def list_queue(
    queue: Queue,
    out: Out,
    sign: SignCursor,
    viewer: As,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 20,
) -> Any:
    """What waits for a decision, longest waiting first; on somebody's behalf, of nodes that they may edit."""
    page = queue.queue(cursor=cursor, limit=limit, viewer=viewer)
    shown = page.map(lambda one: {**one.flag, "comment": out(one.comment) if one.comment else None})
    return signed_page(shown, sign)


@router.get("/authors/{author_id}", response_model=page_of(CommentModel), responses=responses(StrategyCannot))
def list_by_author(
    talk: Talk,
    tree: Tree,
    out: Out,
    sign: SignCursor,
    viewer: As,
    author_id: str,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Any:
    """A person's comments, newest first; on somebody's behalf, of nodes that they may read."""
    page = talk.by_author(author_id, cursor, limit)
    nodes = {comment["node_id"] for comment in page.items}
    hidden = {node_id for node_id in nodes if not viewer.trusted and not _may_read(tree, node_id, viewer)}
    shown = Page([out(comment) for comment in page.items if comment["node_id"] not in hidden], page.next)
    return signed_page(shown, sign)


@router.get("/authors/{author_id}/export", response_model=list_of(CommentModel), responses=responses(Forbidden))
def export_person(request: Request, persons: Persons, out: Out, viewer: As, author_id: str) -> Any:
    """Every comment of a person, from all strategies: one array of any length, sent while it is read.

    Where it breaks off it does not end in a bracket, and is no JSON.
    """
    _require_own_name(viewer, author_id)
    written = _array(persons.export(author_id), out)
    if getattr(request.state, "head", False):
        return Response(media_type="application/json")
    first = next(written)  # what cannot be read at all is a problem, and no answer that breaks off
    return StreamingResponse(chain([first], written), media_type="application/json")


def _array(comments: Iterator[Comment], out: Out) -> Iterator[bytes]:
    before = b"["
    for comment in comments:
        yield before + CommentModel.model_validate(out(comment)).model_dump_json().encode()
        before = b",\n"
    yield b"[]" if before == b"[" else b"]"


@router.post("/authors/{author_id}/erase", response_model=Erased, responses=responses(Forbidden))
def erase_person(persons: Persons, viewer: As, author_id: str) -> Any:
    """Delete every comment of a person, and their name where they wrote, saved or decided anything else."""
    _require_own_name(viewer, author_id)
    done = persons.erase(author_id)
    return {name: done[name] for name in ("comments", "flags", "names")}
