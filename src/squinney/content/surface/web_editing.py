"""Pages for authors: the editor with preview and merge, history, publishing, access and moves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from pydantic import BaseModel
from starlette.responses import Response

from squinney.content import EditConflict, Node, Nodes, Viewer
from squinney.content.folders.plan import slug_of
from squinney.content.markup import render
from squinney.content.nodes import merging
from squinney.content.nodes.rules import TYPES, checked_detail, checked_tags
from squinney.content.surface.dependencies import NodesDep
from squinney.content.surface.viewer import FormText, author_of, viewer_of
from squinney.errors import Conflict, Forbidden, Invalid, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import processes_of
from squinney.http.pages import render as render_page
from squinney.http.site_options import MAX_FORM_BYTES
from squinney.http.threads import COMPUTING
from squinney.patterns.ids import new_id


class LongFormRoute(PageRoute):
    """A route whose form may have the longest text; the framework's limit is 1 MiB for an escaped field."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that reads the form with a higher limit before the framework reads it."""
        handle = super().get_route_handler()

        async def with_form(request: Request) -> Response:
            request.state.form = await request.form(max_part_size=MAX_FORM_BYTES)
            return await handle(request)

        return with_form


router = APIRouter(prefix="/site/-", route_class=LongFormRoute)

Text = Annotated[FormText, Form(max_length=MAX_FORM_BYTES)]  # a text over its own limit is refused and shown again
Short = Annotated[str, Form(max_length=1_000)]
Tags = Annotated[str, Form(max_length=10_000)]
OptionalText = Annotated[FormText | None, Form(max_length=10_000)]  # as `Text`
TEXT_TYPES = ("basic-page", "blog-entry", "folder", "blog", "gallery")


class NewForm(BaseModel):
    """The form for a new node."""

    type: Short
    title: Short = ""
    slug: Short = ""
    parent: Short = ""
    text: Text = ""
    tags: Tags = ""
    when: Short = "draft"
    at: Short = ""


class EditForm(BaseModel):
    """The form of the editor. Pages have a `summary` and pictures an `alt` text; the other of the two is None.

    `had` has the tags at the time when the form was opened, so that only changed tags are added and removed. In the
    form of a merge, `mine` is the text as it was before the merge, and `opened` the nonce at that time.
    """

    nonce: Short
    session: Short
    title: Short = ""
    text: Text = ""
    summary: OptionalText = None
    alt: OptionalText = None
    tags: Tags = ""
    had: Tags = ""
    mine: Annotated[FormText | None, Form(max_length=MAX_FORM_BYTES)] = None
    opened: Short = ""

    def detail(self) -> dict[str, str]:
        """Return the fields of the node's detail."""
        return self.model_dump(include={"text", "summary", "alt"}, exclude_none=True)


@router.get("/new", response_class=HTMLResponse)
def show_new(request: Request, nodes: NodesDep, parent: str = "", type: str = "") -> Response:
    """Show the editor for a new node; the default type is a blog entry in a blog, and a page elsewhere."""
    viewer = viewer_of(request)
    above = nodes.by_id(parent, viewer=viewer) if parent else None
    # guard: the editor is offered to those who may save
    if not nodes.may_edit(above, viewer):
        raise Forbidden("you may not write here: ask an editor")
    default = "blog-entry" if above and above["metadata"]["type"] == "blog" else "basic-page"
    typed = NewForm.model_construct(type=type or default)
    return _editor_page(request, nodes, "content/new.html", above=above, typed=typed, types=TEXT_TYPES, error=None)


def _editor_page(request: Request, nodes: Nodes, template: str, **values: Any) -> Response:
    """Render an editor. Pictures that are dropped into its text go to the first gallery that the visitor may edit."""
    viewer = viewer_of(request)
    tops = nodes.children(None, viewer=viewer).items
    galleries = (top["_id"] for top in tops if top["metadata"]["type"] == "gallery" and nodes.may_edit(top, viewer))
    return render_page(request, template, gallery=next(galleries, ""), **values)


@router.post("/new", response_class=HTMLResponse)
@COMPUTING
def create(request: Request, nodes: NodesDep, typed: Annotated[NewForm, Form()]) -> Response:
    """Create a node: a draft, published now, or scheduled."""
    viewer, parent = viewer_of(request), typed.parent or None
    try:
        node = nodes.create(
            parent, typed.slug or slug_of(typed.title), typed.type, typed.title, author_of(request),
            {"text": typed.text}, _tags(typed.tags), published=publication_time(typed.when, typed.at), viewer=viewer,
        )  # fmt: skip
    except SquinneyError as error:
        above = nodes.by_id(parent, viewer=viewer) if parent else None
        return _editor_page(request, nodes, "content/new.html", above=above, typed=typed, types=TEXT_TYPES, error=error)
    return _redirect(nodes, node)


@router.get("/edit/{node_id}", response_class=HTMLResponse)
def show_edit(request: Request, nodes: NodesDep, node_id: str) -> Response:
    """Show the editor for a node."""
    metadata = nodes.editable(node_id, viewer_of(request))["metadata"]
    # guard: a picture's alt text and a page's summary can be edited
    detail = {name: metadata["detail"].get(name, "") for name in TYPES[metadata["type"]].model_fields}
    tags = ", ".join(metadata["tags"])
    fields: dict[str, Any] = {"nonce": metadata["nonce"], "title": metadata["title"], "tags": tags, "had": tags}
    typed = EditForm.model_construct(None, session=new_id(), **fields, **detail)
    return _editor_page(request, nodes, "content/edit.html", node_id=node_id, typed=typed, error=None)


@router.post("/edit/{node_id}", response_class=HTMLResponse)
@COMPUTING
def save(request: Request, nodes: NodesDep, node_id: str, typed: Annotated[EditForm, Form()]) -> Response:
    """Save an edit; if another user has saved since, show both versions and a merged text."""
    viewer, by = viewer_of(request), author_of(request)
    # The framework treats an empty field as a missing one.
    emptied = {name: "" for name in ("summary", "alt") if request.state.form.get(name) == ""}
    typed = typed.model_copy(update=emptied)
    changes = {"title": typed.title, "detail": typed.detail()}
    try:
        checked_tags(_tags(typed.tags))
        merging.require_resolved(typed.text, "text")
        node = nodes.edit(node_id, typed.nonce, changes, by=by, session=typed.session, viewer=viewer)
        _change_tags(nodes, node, _tags(typed.had), _tags(typed.tags), viewer)
    except EditConflict as conflict:
        return _merge(request, node_id, typed, conflict)
    except Invalid as error:
        if typed.mine is not None and (both := nodes.conflict(node_id, typed.opened, viewer=viewer)):
            return _show_merge(request, node_id, typed, both, error=error)
        return _editor_page(request, nodes, "content/edit.html", node_id=node_id, typed=typed, error=error)
    return _redirect(nodes, node)


def _merge(request: Request, node_id: str, typed: EditForm, conflict: EditConflict) -> Response:
    """Show both versions next to each other, and a form with the merged version."""
    theirs, base = conflict.theirs, conflict.base or conflict.theirs
    merged = merging.merge(_text(base), typed.text, _text(theirs))
    detail = {name: _newer(conflict, name, yours) for name, yours in typed.detail().items()}
    title = theirs["title"] if typed.title == base["title"] else typed.title
    sources = {"mine": typed.text, "opened": typed.nonce, "nonce": theirs["nonce"]}
    typed = typed.model_copy(update={**detail, "text": merged.text, "title": title, **sources})
    return _show_merge(request, node_id, typed, conflict, conflicts=merged.conflicts)


def _show_merge(
    request: Request,
    node_id: str,
    typed: EditForm,
    conflict: EditConflict,
    *,
    conflicts: int = 0,
    error: Invalid | None = None,
) -> Response:
    theirs, base = conflict.theirs, conflict.base or conflict.theirs
    return render_page(
        request,
        "content/merge.html",
        status=409,
        node_id=node_id,
        typed=typed,
        titles=(base["title"], typed.title, theirs["title"]),
        conflicts=conflicts,
        yours=merging.compare(_text(base), typed.mine or ""),
        theirs=merging.compare(_text(base), _text(theirs)),
        error=error,
    )


def _text(version: Mapping[str, Any]) -> str:
    return str(version["detail"].get("text", ""))


def _newer(conflict: EditConflict, name: str, yours: str) -> str:
    """Return the merged value of a short field: yours, unless only they have changed it."""
    base, theirs = ((version or {}).get("detail", {}).get(name, "") for version in (conflict.base, conflict.theirs))
    return theirs if yours == base else yours


def _change_tags(nodes: Nodes, node: Node, had: list[str], wanted: list[str], viewer: Viewer) -> None:
    removed, added = set(had) - set(wanted), [tag for tag in wanted if tag not in had]
    if removed or added:
        nodes.change_tags(node, add=added, remove=removed, viewer=viewer)


@router.post("/preview", response_class=JSONResponse)
@COMPUTING
def preview(request: Request, text: Text = "") -> Response:
    """Render a text as the page will show it; a text that cannot be saved is refused with the same error."""
    checked = checked_detail("basic-page", {"text": text})
    return JSONResponse({"html": render.markdown(checked["text"], offload=processes_of(request))})


@router.get("/history/{node_id}", response_class=HTMLResponse)
@COMPUTING
def show_history(request: Request, nodes: NodesDep, node_id: str, cursor: str | None = None) -> Response:
    """Show the versions of a node, each compared with the version before."""
    viewer = viewer_of(request)
    node = nodes.editable(node_id, viewer)
    page = nodes.history(node, cursor=cursor, limit=10, viewer=viewer)
    older = nodes.history(node, cursor=page.next, limit=1, viewer=viewer).items if page.next else []
    texts = [revision["metadata"]["detail"].get("text", "") for revision in [*page.items, *older]]
    changes = [merging.compare(before, after) for after, before in zip(texts, [*texts[1:], ""], strict=True)]
    changes = changes[: len(page.items)]
    versions = list(zip(page.items, changes, strict=True))
    return render_page(request, "content/history.html", node=node, versions=versions, next=page.next)


@router.post("/restore/{node_id}")
@COMPUTING
def restore(request: Request, nodes: NodesDep, node_id: str, nonce: Short) -> Response:
    """Save an earlier version as the newest version."""
    return _redirect(nodes, nodes.restore(node_id, nonce, by=author_of(request), viewer=viewer_of(request)))


@router.post("/publish/{node_id}")
def publish(request: Request, nodes: NodesDep, node_id: str, when: Short, at: Short = "") -> Response:
    """Publish a node now, schedule it, make it a draft, or keep its time of publication."""
    viewer = viewer_of(request)
    node = nodes.editable(node_id, viewer)
    try:
        published = None if when == "keep" and not at else publication_time(when, at)
        if when == "draft":
            node = nodes.unpublish(node_id, viewer=viewer)
        elif when != "keep":
            node = nodes.publish(node_id, None if when == "now" else published, viewer=viewer)
    except Invalid as error:
        visitor_of(request).flash(error.message, "bad")
    return _redirect(nodes, node)


@router.post("/access/{node_id}")
def set_access(
    request: Request, nodes: NodesDep, node_id: str, own: Short = "", read: Tags = "", edit: Tags = ""
) -> Response:
    """Set who may read and edit a node, or let the node inherit the access of its parent."""
    viewer = viewer_of(request)
    node = nodes.editable(node_id, viewer)
    try:
        access = {"read": _tags(read), "edit": _tags(edit)} if own else None
        node = nodes.set_access(node, access, viewer=viewer)
        visitor_of(request).flash("The access is saved.")
    except Invalid as error:
        visitor_of(request).flash(error.message, "bad")
    return _redirect(nodes, node) if nodes.may_edit(node, viewer) else RedirectResponse("/site", status_code=303)


@router.post("/move/{node_id}")
def move(request: Request, nodes: NodesDep, node_id: str, slug: Short, folder: Short = "") -> Response:
    """Move a node to another folder or slug; old links are redirected."""
    viewer = viewer_of(request)
    node = nodes.editable(node_id, viewer)
    try:
        above = nodes.by_path(folder, viewer=viewer) if folder.strip("/ ") else None
        node = nodes.move(node, above, slug, by=author_of(request), viewer=viewer)
    except SquinneyError as error:
        visitor_of(request).flash(error.message, "bad")
    return _redirect(nodes, node)


@router.post("/remove/{node_id}")
def remove(request: Request, nodes: NodesDep, node_id: str) -> Response:
    """Remove a node that has no children."""
    viewer = viewer_of(request)
    node = nodes.editable(node_id, viewer)
    above = nodes.ancestors(node)
    try:
        nodes.remove(node_id, viewer=viewer)
    except Conflict as error:
        visitor_of(request).flash(error.message, "bad")
        return _redirect(nodes, node)
    visitor_of(request).flash(f"“{node['metadata']['title']}” is removed.")
    return _redirect(nodes, above[0]) if above else RedirectResponse("/site", status_code=303)


def _redirect(nodes: Nodes, node: Node) -> Response:
    return RedirectResponse(f"/site{nodes.path_of(node)}", status_code=303)


def publication_time(when: str, at: str) -> datetime | None:
    """Return the time of publication: now, a given time in UTC, or None for a draft.

    Raises: `Invalid`, also for a time that would be ignored, because the user may rely on it.
    """
    if at and when != "at":
        raise Invalid("at has a time: choose to publish at that time, or leave at empty", field="at")
    if when == "now":
        return datetime.now(UTC)
    if when == "draft":
        return None
    if when != "at":
        raise Invalid("when must be now, at or draft", field="when")
    try:
        given = datetime.fromisoformat(at)
    except ValueError:
        raise Invalid("at must be a date and time, such as 2026-11-15T12:00", field="at") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def _tags(text: str) -> list[str]:
    return [tag.strip() for tag in text.split(",") if tag.strip()]
