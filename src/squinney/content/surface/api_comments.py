"""The API of comments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from squinney.content import Comment, DiscussionFull, StrategyCannot, UnknownComment, UnknownNode, Viewer
from squinney.content.comments.documents import MAX_COMMENT_LENGTH, Flag
from squinney.content.documents import Strategy
from squinney.content.surface.dependencies import CommentsDep, ModerationDep, NodesDep, PeopleDep
from squinney.content.surface.viewer import ViewerDep, comment_html
from squinney.errors import Forbidden
from squinney.http.bodies import AcceptsUnchangedFields, Body, IgnoresReadOnlyFields
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import IdempotencyKey
from squinney.http.error_responses import responses
from squinney.http.response_models import list_of, model_of, page_of, signed_page
from squinney.http.routes import OneThreadRoute
from squinney.patterns.paging import Page
from squinney.transactions import Busy, KeyReused

router = APIRouter(prefix="/api/comments", tags=["comments"], route_class=OneThreadRoute)

Slug = Annotated[str, Query(min_length=1, max_length=200, examples=["34db8bda"])]


async def readable(node_id: str, nodes: NodesDep, viewer: ViewerDep) -> str:
    """Return the node's id if the viewer may read the node, else raise `UnknownNode`."""
    if not viewer.trusted:
        await run_in_threadpool(nodes.by_id, node_id, viewer=viewer)
    return node_id


async def editable(node_id: str, nodes: NodesDep, viewer: ViewerDep) -> str:
    """Return the node's id if the viewer may edit the node, else raise `UnknownNode` or `Forbidden`."""
    if not viewer.trusted:
        await run_in_threadpool(nodes.editable, node_id, viewer)
    return node_id


NodeId = Annotated[str, Depends(readable)]
EditableId = Annotated[str, Depends(editable)]
By = Annotated[str | None, Query(min_length=1, max_length=200, description="Only if this is the author's id")]


class NewComment(IgnoresReadOnlyFields, Body):
    """A new comment. `author` and `slug`, as GET returns them, also set the author and the comment to reply to."""

    READ_ONLY = frozenset({"id", "node_id", "parent_id", "slug", "posted", "html", "num_replies", "edited", "deleted"})
    author_id: str = Field(min_length=1, max_length=200)
    author_name: str = Field(min_length=1, max_length=100)
    text: str = Field(min_length=1, max_length=MAX_COMMENT_LENGTH)
    reply_to: str | None = Field(None, max_length=200)

    @model_validator(mode="before")
    @classmethod
    def _accept_response_fields(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        fields = dict(body)
        if isinstance(slug := fields.pop("slug", None), str) and "/" in slug:
            fields = {"reply_to": slug.rpartition("/")[0], **fields}
        author = fields.get("author")
        if isinstance(author, dict) and author.keys() == {"id", "name"}:
            fields.pop("author")
            fields = {"author_id": author["id"], "author_name": author["name"], **fields}
        return fields


class NewText(AcceptsUnchangedFields, Body):
    """The new text of a comment. Other fields that GET returns may be sent unchanged."""

    READ_ONLY = frozenset({"posted", "html", "num_replies", "edited", "deleted"})
    UNCHANGEABLE = frozenset({"id", "node_id", "parent_id", "slug", "author"})
    text: str = Field(min_length=1, max_length=MAX_COMMENT_LENGTH)


class Conversion(Body):
    """The strategy to convert a discussion to."""

    to: Strategy


class NewFlag(Body):
    """The user who flags a comment, and the reason."""

    by: str = Field(min_length=1, max_length=200)
    reason: str = Field("", max_length=500)


class Decision(Body):
    """A moderator's decision on a flagged comment."""

    by: str = Field(min_length=1, max_length=200)
    verdict: Literal["keep", "remove"]


CommentModel = model_of(Comment, without=["full_slug", "version"], html=str)
FlagModel = model_of(Flag, without=["_id"], comment=(CommentModel | None, None))


class Count(BaseModel):
    """The number of a node's comments, and their storage strategy."""

    count: int
    strategy: Strategy


class Erased(BaseModel):
    """The number of erased comments, flags and names."""

    comments: int
    flags: int
    names: int


async def _comment_response(request: Request) -> Callable[[Comment], Any]:
    """Return a function that adds the rendered text to a comment."""
    return lambda comment: {**comment, "html": str(comment_html(request, comment["text"]))}


ToResponse = Annotated[Callable[[Comment], Any], Depends(_comment_response)]


def _require_own_name(viewer: Viewer, user_id: str) -> None:
    """Require that a request on a user's behalf names no other user, or raise `Forbidden`."""
    if viewer.user_id is not None and viewer.user_id != user_id:
        raise Forbidden("a request on behalf of a user may not name another user")


READ = responses(UnknownNode, UnknownComment, StrategyCannot)
WRITE = responses(UnknownNode, UnknownComment, Forbidden, Busy)
JUDGE = responses(UnknownNode, UnknownComment, Forbidden)
POST = responses(UnknownNode, UnknownComment, Forbidden, StrategyCannot, DiscussionFull, KeyReused, Busy)


@router.post("/nodes/{node_id}", status_code=201, response_model=CommentModel, responses=POST)
def post_comment(
    comments: CommentsDep,
    to_response: ToResponse,
    viewer: ViewerDep,
    node_id: NodeId,
    body: NewComment,
    key: IdempotencyKey,
) -> Any:
    """Add a comment or a reply."""
    _require_own_name(viewer, body.author_id)
    author: Any = {"_id": body.author_id, "name": body.author_name}
    return to_response(comments.post(node_id, author, body.text, body.reply_to, key=key))


@router.get("/nodes/{node_id}", response_model=page_of(CommentModel), responses=READ)
def list_comments(
    comments: CommentsDep,
    to_response: ToResponse,
    sign: SignCursor,
    node_id: NodeId,
    cursor: Cursor = None,
    limit: Limit = 50,
    order: Literal["chronological", "threaded"] = "chronological",
    at: Annotated[str | None, Query(max_length=200, description="Begin at the comment with this slug")] = None,
) -> Any:
    """List a node's comments, oldest first or in threaded order."""
    return signed_page(comments.page(node_id, cursor, limit, order, at=at).map(to_response), sign)


@router.get("/nodes/{node_id}/count", response_model=Count, responses=READ)
def count_comments(comments: CommentsDep, node_id: NodeId) -> Any:
    """Return the number of a node's comments."""
    return {"count": comments.count(node_id), "strategy": comments.strategy_of(node_id)}


@router.get("/nodes/{node_id}/comment", response_model=CommentModel, responses=READ)
def get_comment(comments: CommentsDep, to_response: ToResponse, node_id: NodeId, slug: Slug) -> Any:
    """Return the comment with this slug."""
    return to_response(comments.get(node_id, slug))


@router.get("/nodes/{node_id}/discussion", response_model=list_of(CommentModel), responses=READ)
def get_discussion(comments: CommentsDep, to_response: ToResponse, node_id: NodeId, slug: Slug) -> Any:
    """Return a comment and all replies below it."""
    return [to_response(comment) for comment in comments.discussion(node_id, slug)]


@router.patch("/nodes/{node_id}/comment", response_model=CommentModel, responses=WRITE)
def edit_comment(
    comments: CommentsDep,
    to_response: ToResponse,
    viewer: ViewerDep,
    node_id: NodeId,
    slug: Slug,
    body: NewText,
    by: By = None,
) -> Any:
    """Change a comment's text. On behalf of a user, the comment must be their own."""
    body.require_unchanged(lambda: to_response(comments.get(node_id, slug)), CommentModel)
    return to_response(comments.edit(node_id, slug, body.text, by=viewer.user_id or by))


@router.delete("/nodes/{node_id}/comment", status_code=204, responses=WRITE)
def delete_comment(comments: CommentsDep, viewer: ViewerDep, node_id: NodeId, slug: Slug, by: By = None) -> None:
    """Delete a comment. On behalf of a user, the comment must be their own. With replies, a tombstone stays."""
    comments.delete(node_id, slug, by=viewer.user_id or by)


@router.post("/nodes/{node_id}/convert", response_model=Count, responses={**WRITE, **responses(DiscussionFull)})
def convert_discussion(comments: CommentsDep, node_id: EditableId, body: Conversion) -> Any:
    """Convert a discussion to another storage strategy. On behalf of a user, they must be allowed to edit the node."""
    comments.convert(node_id, body.to)
    return count_comments(comments, node_id)


@router.post("/nodes/{node_id}/flags", status_code=201, response_model=FlagModel, responses=JUDGE)
def flag_comment(moderation: ModerationDep, viewer: ViewerDep, node_id: NodeId, slug: Slug, body: NewFlag) -> Any:
    """Put a comment in the moderators' queue."""
    _require_own_name(viewer, body.by)
    return moderation.flag(node_id, slug, body.by, body.reason)


@router.post("/nodes/{node_id}/decision", response_model=FlagModel, responses=JUDGE)
def decide(moderation: ModerationDep, viewer: ViewerDep, node_id: EditableId, slug: Slug, body: Decision) -> Any:
    """Keep or remove a flagged comment. On behalf of a user, they must be allowed to edit the node."""
    _require_own_name(viewer, body.by)
    return moderation.decide(node_id, slug, body.verdict, by=body.by, viewer=viewer)


@router.get("/queue", response_model=page_of(FlagModel), responses=responses())
def list_queue(
    moderation: ModerationDep,
    to_response: ToResponse,
    sign: SignCursor,
    viewer: ViewerDep,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 20,
) -> Any:
    """List open flags, oldest first. On behalf of a user, only those on nodes that they may edit."""
    page = moderation.queue(cursor=cursor, limit=limit, viewer=viewer)
    shown = page.map(
        lambda waiting: {**waiting.flag, "comment": to_response(waiting.comment) if waiting.comment else None}
    )
    return signed_page(shown, sign)


@router.get("/authors/{author_id}", response_model=page_of(CommentModel), responses=responses(StrategyCannot))
def list_by_author(
    comments: CommentsDep,
    nodes: NodesDep,
    to_response: ToResponse,
    sign: SignCursor,
    viewer: ViewerDep,
    author_id: str,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Any:
    """List a person's comments, newest first. On behalf of a user, only those on nodes that they may read."""
    page = comments.by_author(author_id, cursor, limit)
    if not viewer.trusted:
        seen = nodes.readable_ids({comment["node_id"] for comment in page.items}, viewer)
        page = Page([comment for comment in page.items if comment["node_id"] in seen], page.next)
    return signed_page(page.map(to_response), sign)


@router.get("/authors/{author_id}/export", response_model=list_of(CommentModel), responses=responses(Forbidden))
def export_person(
    request: Request, people: PeopleDep, to_response: ToResponse, viewer: ViewerDep, author_id: str
) -> Any:
    """Export every comment of a person, from all strategies, as one streamed JSON array.

    If reading fails, the response ends without the closing bracket and is not valid JSON.
    """
    _require_own_name(viewer, author_id)
    parts = _json_array(people.export(author_id), to_response)
    if getattr(request.state, "head", False):
        return Response(media_type="application/json")
    first = next(parts)  # an error at the start gives a problem response, not one that breaks off
    return StreamingResponse(chain([first], parts), media_type="application/json")


def _json_array(comments: Iterator[Comment], to_response: ToResponse) -> Iterator[bytes]:
    separator = b"["
    for comment in comments:
        yield separator + CommentModel.model_validate(to_response(comment)).model_dump_json().encode()
        separator = b",\n"
    yield b"[]" if separator == b"[" else b"]"


@router.post("/authors/{author_id}/erase", response_model=Erased, responses=responses(Forbidden))
def erase_person(people: PeopleDep, viewer: ViewerDep, author_id: str) -> Any:
    """Delete every comment of a person, and their name in nodes, versions and decisions."""
    _require_own_name(viewer, author_id)
    done = people.erase(author_id)
    return {name: done[name] for name in ("comments", "flags", "names")}
