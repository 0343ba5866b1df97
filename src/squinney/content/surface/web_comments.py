"""Forms for comments, and the page of the moderators' queue."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.content import Node, Nodes
from squinney.content.comments.moderation import Verdict
from squinney.content.surface.dependencies import CommentsDep, ModerationDep, NodesDep
from squinney.content.surface.viewer import FormText, author_of, comment_html, viewer_of
from squinney.errors import Invalid, LimitReached, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.new_accounts import count_public_text
from squinney.http.access.permissions import needs
from squinney.http.access.visitor import visitor_of
from squinney.http.pages import render as render_page
from squinney.roles import may_act_as
from squinney.transactions import Busy, Key

router = APIRouter(prefix="/site/-", route_class=PageRoute)

Text = Annotated[FormText, Form(max_length=1 << 20)]  # a longer text than allowed is refused later, and shown again
Short = Annotated[str, Form(max_length=1_000)]
FormVerdict = Annotated[Verdict, Form()]


@router.post("/comments/{node_id}")
def post(
    request: Request, nodes: NodesDep, comments: CommentsDep, node_id: str, text: Text, key: Short, reply_to: Short = ""
) -> Response:
    """Add a comment; a form that is sent twice adds only one."""
    node = nodes.by_id(node_id, viewer=viewer_of(request))
    author = author_of(request)
    try:
        count_public_text(request, text)
        comment = comments.post(node, author, text, reply_to or None, key=Key(key, author["_id"]))
    except SquinneyError as error:
        return _show_form(request, nodes, node, text, {"key": key, "reply_to": reply_to}, error)
    return _redirect(nodes, node, comment["slug"])


def _show_form(
    request: Request, nodes: Nodes, node: Node, text: str, hidden: dict[str, str], error: SquinneyError
) -> Response:
    """Show the form again, with the text and the error."""
    back = f"/site{nodes.path_of(node)}#comments"
    context: dict[str, Any] = {"node": node, "text": text, "hidden": hidden, "back": back, "error": error}
    return render_page(request, "content/comment.html", **context)


@router.post("/comments/{node_id}/edit")
def edit(request: Request, nodes: NodesDep, comments: CommentsDep, node_id: str, slug: Short, text: Text) -> Response:
    """Change the visitor's own comment."""
    node = nodes.by_id(node_id, viewer=viewer_of(request))
    try:
        count_public_text(request, text)
        comments.edit(node, slug, text, by=author_of(request)["_id"])
    except (Invalid, LimitReached, Busy) as error:
        return _show_form(request, nodes, node, text, {"slug": slug}, error)
    return _redirect(nodes, node, slug)


@router.post("/comments/{node_id}/delete")
def delete(request: Request, nodes: NodesDep, comments: CommentsDep, node_id: str, slug: Short) -> Response:
    """Delete the visitor's own comment, or any comment if the visitor is an editor."""
    node = nodes.by_id(node_id, viewer=viewer_of(request))
    moderates = may_act_as(visitor_of(request).role, "editor")
    comments.delete(node, slug, by=None if moderates else author_of(request)["_id"])
    visitor_of(request).flash("The comment is deleted.")
    return _redirect(nodes, node)


@router.post("/comments/{node_id}/flag")
def flag(
    request: Request, nodes: NodesDep, moderation: ModerationDep, node_id: str, slug: Short, reason: Short = ""
) -> Response:
    """Put a comment in the moderators' queue."""
    node = nodes.by_id(node_id, viewer=viewer_of(request))
    # guard: flags of new accounts are counted
    count_public_text(request, reason)
    moderation.flag(node, slug, author_of(request)["_id"], reason)
    visitor_of(request).flash("Thank you. The moderators will look at the comment.")
    return _redirect(nodes, node, slug)


@router.get("/queue", response_class=HTMLResponse, dependencies=[needs("editor")])
def show_queue(request: Request, moderation: ModerationDep, cursor: str | None = None) -> Response:
    """Show the flags that wait for a decision."""
    page = moderation.queue(cursor=cursor, viewer=viewer_of(request))
    items = [
        (entry.flag, entry.comment, comment_html(request, entry.comment["text"]) if entry.comment else "")
        for entry in page.items
    ]
    return render_page(request, "content/queue.html", items=items, next=page.next)


@router.post("/queue", dependencies=[needs("editor")])
def decide(request: Request, moderation: ModerationDep, node_id: Short, slug: Short, verdict: FormVerdict) -> Response:
    """Keep or remove a flagged comment."""
    moderation.decide(node_id, slug, verdict, by=author_of(request)["_id"], viewer=viewer_of(request))
    visitor_of(request).flash("The comment is kept." if verdict == "keep" else "The comment is removed.")
    return RedirectResponse("/site/-/queue", status_code=303)


def _redirect(nodes: Nodes, node: Node, slug: str | None = None) -> Response:
    """Redirect to the node's page, to a comment or to the list of comments."""
    anchor = f"?at={quote(slug, safe='')}#c-{slug.rpartition('/')[2]}" if slug else "#comments"
    return RedirectResponse(f"/site{nodes.path_of(node)}{anchor}", status_code=303)
