"""Talking: comments on the pages, and the moderators' queue."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.content import Node, Nodes
from squinney.content.surface.dependencies import Queue, Talk, Tree
from squinney.content.surface.viewer import Typed, author_of, comment_html, viewer_of
from squinney.errors import Invalid, LimitReached, SquinneyError
from squinney.http.pages import render as render_page
from squinney.http.permissions import needs
from squinney.http.visitor import visitor_of
from squinney.roles import may_act_as
from squinney.transactions import Busy, Key

router = APIRouter(prefix="/site/-")

Text = Annotated[Typed, Form(max_length=1 << 20)]  # a text that is too long is refused by its own rule, and shown
Short = Annotated[str, Form(max_length=1_000)]


@router.post("/comments/{node_id}")
def post(
    request: Request, tree: Tree, talk: Talk, node_id: str, text: Text, key: Short, reply_to: Short = ""
) -> Response:
    """Add a comment; a form sent twice adds one."""
    node = tree.by_id(node_id, viewer=viewer_of(request))
    author = author_of(request)
    try:
        comment = talk.post(node, author, text, reply_to or None, key=Key(key, author["_id"]))
    except SquinneyError as error:
        return _again(request, tree, node, text, {"key": key, "reply_to": reply_to}, error)
    return _to(tree, node, comment["slug"])


def _again(
    request: Request, tree: Nodes, node: Node, text: str, hidden: dict[str, str], error: SquinneyError
) -> Response:
    """The form as it was typed."""
    back = f"/site{tree.path_of(node)}#comments"
    about: dict[str, Any] = {"node": node, "text": text, "hidden": hidden, "back": back, "error": error}
    return render_page(request, "content/comment.html", **about)


@router.post("/comments/{node_id}/edit")
def edit(request: Request, tree: Tree, talk: Talk, node_id: str, slug: Short, text: Text) -> Response:
    """Change one's own comment."""
    node = tree.by_id(node_id, viewer=viewer_of(request))
    try:
        talk.edit(node, slug, text, by=author_of(request)["_id"])
    except (Invalid, LimitReached, Busy) as error:
        return _again(request, tree, node, text, {"slug": slug}, error)
    return _to(tree, node, slug)


@router.post("/comments/{node_id}/delete")
def delete(request: Request, tree: Tree, talk: Talk, node_id: str, slug: Short) -> Response:
    """Delete one's own comment, or any as an editor."""
    node = tree.by_id(node_id, viewer=viewer_of(request))
    moderates = may_act_as(visitor_of(request).role, "editor")
    talk.delete(node, slug, by=None if moderates else author_of(request)["_id"])
    visitor_of(request).flash("The comment is deleted.")
    return _to(tree, node)


@router.post("/comments/{node_id}/flag")
def flag(request: Request, tree: Tree, queue: Queue, node_id: str, slug: Short, reason: Short = "") -> Response:
    """Tell the moderators."""
    node = tree.by_id(node_id, viewer=viewer_of(request))
    queue.flag(node, slug, author_of(request)["_id"], reason)
    visitor_of(request).flash("Thank you: the moderators will look at it.")
    return _to(tree, node, slug)


@router.get("/queue", response_class=HTMLResponse, dependencies=[needs("editor")])
def show_queue(request: Request, queue: Queue, cursor: str | None = None) -> Response:
    """What waits for a decision."""
    page = queue.queue(cursor=cursor, viewer=viewer_of(request))
    items = [
        (entry.flag, entry.comment, comment_html(request, entry.comment["text"]) if entry.comment else "")
        for entry in page.items
    ]
    return render_page(request, "content/queue.html", items=items, next=page.next)


@router.post("/queue", dependencies=[needs("editor")])
def decide(
    request: Request, queue: Queue, node_id: Short, slug: Short, verdict: Annotated[Literal["keep", "remove"], Form()]
) -> Response:
    """Keep or remove a comment."""
    queue.decide(node_id, slug, verdict, by=author_of(request)["_id"], viewer=viewer_of(request))
    visitor_of(request).flash("The comment stays." if verdict == "keep" else "The comment is removed.")
    return RedirectResponse("/site/-/queue", status_code=303)


def _to(tree: Nodes, node: Node, slug: str | None = None) -> Response:
    """Back to the page, at the comment."""
    anchor = f"?at={quote(slug, safe='')}#c-{slug.rpartition('/')[2]}" if slug else "#comments"
    return RedirectResponse(f"/site{tree.path_of(node)}{anchor}", status_code=303)
