"""Writing: the editor with its preview, the merge, history, publishing, and uploads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import Response

from squinney.content import EditConflict, Node, Nodes, Viewer
from squinney.content.nodes import merging, render
from squinney.content.nodes.rules import TYPES, checked_detail, checked_tags
from squinney.content.surface.assets import Body
from squinney.content.surface.dependencies import Albums, Tree
from squinney.content.surface.folders.plan import slug_of
from squinney.content.surface.viewer import Typed, author_of, viewer_of
from squinney.errors import Conflict, Invalid, SquinneyError
from squinney.http.dependencies import processes_of
from squinney.http.options import MOST_FORM_BYTES
from squinney.http.pages import render as render_page
from squinney.http.threads import COMPUTING, UPLOADS
from squinney.http.visitor import visitor_of
from squinney.patterns.ids import new_id


class LongFormRoute(APIRoute):
    """A text of the greatest length fits: a field's usual limit is one MiB, with each letter escaped."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Read the form before the framework does."""
        handle = super().get_route_handler()

        async def with_form(request: Request) -> Response:
            request.state.form = await request.form(max_part_size=MOST_FORM_BYTES)
            return await handle(request)

        return with_form


router = APIRouter(prefix="/site/-", route_class=LongFormRoute)

Text = Annotated[Typed, Form(max_length=MOST_FORM_BYTES)]  # one that is too long is refused by its own rule, and shown
Short = Annotated[str, Form(max_length=1_000)]
Tags = Annotated[str, Form(max_length=10_000)]
Words = Annotated[Typed | None, Form(max_length=10_000)]  # as `Text`
WRITTEN = ("basic-page", "blog-entry", "folder", "blog", "gallery")


class NewForm(BaseModel):
    """The form for a new node, as it was typed."""

    type: Short
    title: Short = ""
    slug: Short = ""
    parent: Short = ""
    text: Text = ""
    tags: Tags = ""
    when: Short = "draft"
    at: Short = ""


class EditForm(BaseModel):
    """The editor's form, as it was typed. `had` are the tags that it came with: of them only what changed is changed.

    A page has a summary, a picture says what it shows: the other one is None.
    """

    nonce: Short
    session: Short
    title: Short = ""
    text: Text = ""
    summary: Words = None
    alt: Words = None
    tags: Tags = ""
    had: Tags = ""

    def detail(self) -> dict[str, str]:
        """The words that were typed, by their names in a node's detail."""
        return self.model_dump(include={"text", "summary", "alt"}, exclude_none=True)


@router.get("/new", response_class=HTMLResponse)
def show_new(request: Request, tree: Tree, parent: str = "", type: str = "") -> Response:
    """The editor for a new node: in a blog an entry, elsewhere a page, until another type is chosen."""
    above = tree.by_id(parent, viewer=viewer_of(request)) if parent else None
    usual = "blog-entry" if above and above["metadata"]["type"] == "blog" else "basic-page"
    typed = NewForm.model_construct(type=type or usual)
    return render_page(request, "content/new.html", above=above, typed=typed, types=WRITTEN, error=None)


@router.post("/new", response_class=HTMLResponse)
@COMPUTING
def create(request: Request, tree: Tree, typed: Annotated[NewForm, Form()]) -> Response:
    """Create a node: a draft, published now, or scheduled."""
    viewer, parent = viewer_of(request), typed.parent or None
    try:
        node = tree.create(
            parent, typed.slug or slug_of(typed.title), typed.type, typed.title, author_of(request),
            {"text": typed.text}, _tags(typed.tags), published=_time(typed.when, typed.at), viewer=viewer,
        )  # fmt: skip
    except SquinneyError as error:
        above = tree.by_id(parent, viewer=viewer) if parent else None
        return render_page(request, "content/new.html", above=above, typed=typed, types=WRITTEN, error=error)
    return _to(tree, node)


@router.get("/edit/{node_id}", response_class=HTMLResponse)
def show_edit(request: Request, tree: Tree, node_id: str) -> Response:
    """The editor for a node."""
    metadata = tree.editable(node_id, viewer_of(request))["metadata"]
    words = {name: metadata["detail"].get(name, "") for name in TYPES[metadata["type"]].model_fields}
    tags = ", ".join(metadata["tags"])
    own: dict[str, Any] = {"nonce": metadata["nonce"], "title": metadata["title"], "tags": tags, "had": tags, **words}
    typed = EditForm.model_construct(None, session=new_id(), **own)
    return render_page(request, "content/edit.html", node_id=node_id, typed=typed, error=None)


@router.post("/edit/{node_id}", response_class=HTMLResponse)
@COMPUTING
def save(request: Request, tree: Tree, node_id: str, typed: Annotated[EditForm, Form()]) -> Response:
    """Save; where somebody else has saved since, show both and let the person merge."""
    viewer, by = viewer_of(request), author_of(request)
    # To the framework a field that was emptied is a missing one.
    emptied = {name: "" for name in ("summary", "alt") if request.state.form.get(name) == ""}
    typed = typed.model_copy(update=emptied)
    changes = {"title": typed.title, "detail": typed.detail()}
    try:
        checked_tags(_tags(typed.tags))
        merging.require_resolved(typed.text, "text")
        node = tree.edit(node_id, typed.nonce, changes, by=by, session=typed.session, viewer=viewer)
        _change_tags(tree, node, _tags(typed.had), _tags(typed.tags), viewer)
    except EditConflict as conflict:
        return _merge(request, node_id, typed, conflict)
    except Invalid as error:  # which is no reason to type it all again
        return render_page(request, "content/edit.html", node_id=node_id, typed=typed, error=error)
    return _to(tree, node)


def _merge(request: Request, node_id: str, typed: EditForm, conflict: EditConflict) -> Response:
    """Both versions beside each other, and a form with what is to be saved of both."""
    theirs, base = conflict.theirs, conflict.base or conflict.theirs
    texts = [version["detail"].get("text", "") for version in (base, theirs)]
    merged = merging.merge(texts[0], typed.text, texts[1])
    words = {name: _newer(conflict, name, yours) for name, yours in typed.detail().items()}
    title = theirs["title"] if typed.title == base["title"] else typed.title
    return render_page(
        request,
        "content/merge.html",
        status=409,
        node_id=node_id,
        typed=typed.model_copy(update={**words, "text": merged.text, "title": title, "nonce": theirs["nonce"]}),
        titles=(base["title"], typed.title, theirs["title"]),
        conflicts=merged.conflicts,
        yours=merging.compare(texts[0], typed.text),
        theirs=merging.compare(*texts),
    )


def _newer(conflict: EditConflict, name: str, yours: str) -> str:
    """A field of a line or two: yours, unless only they have changed it."""
    base, theirs = ((version or {}).get("detail", {}).get(name, "") for version in (conflict.base, conflict.theirs))
    return theirs if yours == base else yours


def _change_tags(tree: Nodes, node: Node, had: list[str], wanted: list[str], viewer: Viewer) -> None:
    gone, new = set(had) - set(wanted), [tag for tag in wanted if tag not in had]
    if gone or new:
        tree.change_tags(node, add=new, remove=gone, viewer=viewer)


@router.post("/preview", response_class=JSONResponse)
@COMPUTING
def preview(request: Request, text: Text = "") -> Response:
    """The text as the page will show it; what could not be saved is refused with the same words."""
    checked = checked_detail("basic-page", {"text": text})
    return JSONResponse({"html": render.markdown(checked["text"], offload=processes_of(request))})


@router.get("/history/{node_id}", response_class=HTMLResponse)
@COMPUTING
def show_history(request: Request, tree: Tree, node_id: str, cursor: str | None = None) -> Response:
    """The versions of a node, each beside the one before it."""
    viewer = viewer_of(request)
    node = tree.editable(node_id, viewer)
    page = tree.history(node, cursor=cursor, limit=10, viewer=viewer)
    older = tree.history(node, cursor=page.next, limit=1, viewer=viewer).items if page.next else []
    texts = [revision["metadata"]["detail"].get("text", "") for revision in [*page.items, *older]]
    changes = [merging.compare(before, after) for after, before in zip(texts, [*texts[1:], ""], strict=True)]
    changes = changes[: len(page.items)]
    versions = list(zip(page.items, changes, strict=True))
    return render_page(request, "content/history.html", node=node, versions=versions, next=page.next)


@router.post("/restore/{node_id}")
@COMPUTING
def restore(request: Request, tree: Tree, node_id: str, nonce: Short) -> Response:
    """Make an earlier version the newest."""
    return _to(tree, tree.restore(node_id, nonce, by=author_of(request), viewer=viewer_of(request)))


@router.post("/publish/{node_id}")
def publish(request: Request, tree: Tree, node_id: str, when: Short, at: Short = "") -> Response:
    """Publish now, schedule, take back, or leave it as it is; what is published already keeps its time."""
    viewer = viewer_of(request)
    node = tree.editable(node_id, viewer)
    try:
        published = None if when == "keep" and not at else _time(when, at)
        if when == "draft":
            node = tree.unpublish(node_id, viewer=viewer)
        elif when != "keep":
            node = tree.publish(node_id, None if when == "now" else published, viewer=viewer)
    except Invalid as error:
        visitor_of(request).flash(error.message, "bad")
    return _to(tree, node)


@router.post("/access/{node_id}")
def set_access(
    request: Request, tree: Tree, node_id: str, own: Short = "", read: Tags = "", edit: Tags = ""
) -> Response:
    """Say who may read and edit a node and what is below it, or leave that to the folder above."""
    viewer = viewer_of(request)
    node = tree.editable(node_id, viewer)
    try:
        access = {"read": _tags(read), "edit": _tags(edit)} if own else None
        node = tree.set_access(node, access, viewer=viewer)
        visitor_of(request).flash("Who may read and edit it is saved.")
    except Invalid as error:
        visitor_of(request).flash(error.message, "bad")
    return _to(tree, node) if tree.may_edit(node, viewer) else RedirectResponse("/site", status_code=303)


@router.post("/move/{node_id}")
def move(request: Request, tree: Tree, node_id: str, slug: Short, folder: Short = "") -> Response:
    """Give a node another address; old links go on leading to it."""
    viewer = viewer_of(request)
    node = tree.editable(node_id, viewer)
    try:
        above = tree.by_path(folder, viewer=viewer) if folder.strip("/ ") else None
        node = tree.move(node, above, slug, by=author_of(request), viewer=viewer)
    except SquinneyError as error:
        visitor_of(request).flash(error.message, "bad")
    return _to(tree, node)


@router.post("/remove/{node_id}")
def remove(request: Request, tree: Tree, node_id: str) -> Response:
    """Remove a node without children."""
    viewer = viewer_of(request)
    node = tree.editable(node_id, viewer)
    above = tree.ancestors(node)
    try:
        tree.remove(node_id, viewer=viewer)
    except Conflict as error:
        visitor_of(request).flash(error.message, "bad")
        return _to(tree, node)
    visitor_of(request).flash(f"“{node['metadata']['title']}” is removed.")
    return _to(tree, above[0]) if above else RedirectResponse("/site", status_code=303)


# ---- uploads ----


@router.get("/upload", response_class=HTMLResponse)
def show_upload(request: Request, tree: Tree, parent: str) -> Response:
    """The form for photos and videos."""
    return render_page(request, "content/upload.html", above=tree.by_id(parent, viewer=viewer_of(request)))


@router.post("/upload", response_class=JSONResponse)
async def upload(
    request: Request,
    tree: Tree,
    albums: Albums,
    parent: Annotated[str, Query(max_length=200)],
    slug: Annotated[str, Query(max_length=150)] = "",
    title: Annotated[str, Query(max_length=300)] = "",
    alt: Annotated[str, Query(max_length=500)] = "",
    type: Literal["photo", "video"] = "photo",
    when: Literal["now", "draft"] = "now",
) -> Response:
    """The file is the request's body, so that it is streamed and its progress can be shown."""

    def work() -> str:
        node = albums.upload(
            Body(request), parent, slug or (title and slug_of(title)), author=author_of(request), title=title,
            type=type, detail={"alt": alt}, published=_time(when, ""), viewer=viewer_of(request),
        )  # fmt: skip
        return f"/site{tree.path_of(node)}"

    return JSONResponse({"url": await UPLOADS.run(work)}, status_code=201)


@router.post("/replace/{node_id}", response_class=JSONResponse)
async def replace(
    request: Request, tree: Tree, albums: Albums, node_id: str, nonce: Annotated[str | None, Query()] = None
) -> Response:
    """Replace a photo's bytes."""

    def work() -> str:
        node = albums.replace(Body(request), node_id, nonce, by=author_of(request), viewer=viewer_of(request))
        return f"/site{tree.path_of(node)}"

    return JSONResponse({"url": await UPLOADS.run(work)})


def _to(tree: Nodes, node: Node) -> Response:
    return RedirectResponse(f"/site{tree.path_of(node)}", status_code=303)


def _time(when: str, at: str) -> datetime | None:
    """When to publish: now, at a time in UTC, or not yet.

    Raises: `Invalid`; also where a time is given and not asked for, which somebody would count on.
    """
    if at and when != "at":
        raise Invalid("a time is given: choose to publish at that time, or leave it out", field="at")
    if when == "now":
        return datetime.now(UTC)
    if when == "draft":
        return None
    if when != "at":
        raise Invalid("when must be now, at or draft", field="when")
    try:
        given = datetime.fromisoformat(at)
    except ValueError:
        raise Invalid("at must be a date and time", field="at") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def _tags(text: str) -> list[str]:
    return [tag.strip() for tag in text.split(",") if tag.strip()]
