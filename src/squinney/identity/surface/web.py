"""The pages for signing up, in and out, and the page of the own account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from squinney.errors import Conflict, Forbidden, Invalid, LimitReached
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import needs, signed_in
from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import client_address, service
from squinney.http.pages import MAX_NEXT_LENGTH, own_path, redirect, render
from squinney.http.threads import PASSWORDS
from squinney.identity import Invitations, People, Person, Sessions, SignInRefused

router = APIRouter(route_class=PageRoute)

PeopleDep = Annotated[People, Depends(service("identity", "people", People))]
SessionsDep = Annotated[Sessions, Depends(service("identity", "sessions", Sessions))]
InvitationsDep = Annotated[Invitations, Depends(service("identity", "invitations", Invitations))]
Text = Annotated[str, Form(max_length=1_000)]
Next = Annotated[str, Query(max_length=MAX_NEXT_LENGTH)]
REFUSALS = (Invalid, Forbidden, Conflict, LimitReached)


@router.get("/sign-in", response_class=HTMLResponse)
def show_sign_in(request: Request, next: Next = "/") -> Response:
    """Show the sign-in form."""
    return render(request, "identity/sign_in.html", next=own_path(next), error=None, login="")


@router.post("/sign-in", response_class=HTMLResponse)
@PASSWORDS
def sign_in(
    request: Request, people: PeopleDep, sessions: SessionsDep, login: Text, password: Text, next: Text = "/"
) -> Response:
    """Sign in, and redirect to the page that the visitor came from."""
    try:
        person = people.sign_in(login, password, address=client_address(request.scope))
    except REFUSALS as error:
        return render(request, "identity/sign_in.html", next=own_path(next), error=error, login=login[:100])
    return _start_session(request, sessions, person, next)


@router.get("/sign-up", response_class=HTMLResponse)
def show_sign_up(request: Request, next: Next = "/") -> Response:
    """Show the sign-up form."""
    _require_open_sign_up(request)
    return render(request, "identity/sign_up.html", next=own_path(next), error=None, typed={})


@router.post("/sign-up", response_class=HTMLResponse)
@PASSWORDS
def sign_up(
    request: Request,
    people: PeopleDep,
    sessions: SessionsDep,
    login: Text,
    password: Text,
    name: Text = "",
    next: Text = "/",
) -> Response:
    """Sign up as a member."""
    _require_open_sign_up(request)
    try:
        person = people.sign_up(login, password, name=name, address=client_address(request.scope))
    except REFUSALS as error:
        typed = {"login": login[:100], "name": name[:100]}
        return render(request, "identity/sign_up.html", next=own_path(next), error=error, typed=typed)
    return _start_session(request, sessions, person, next)


def _require_open_sign_up(request: Request) -> None:
    if not request.app.state.options.sign_up_open:
        raise Forbidden("sign-up is closed: ask an admin to invite you")


@router.post("/sign-out")
def sign_out(request: Request, sessions: SessionsDep) -> Response:
    """End this session."""
    visitor = visitor_of(request)
    if visitor.session_token:
        sessions.end(visitor.session_token)
    visitor.sign_out()
    return redirect(request, "/", "You have signed out.")


@router.get("/welcome", response_class=HTMLResponse)
def show_welcome(request: Request, links: InvitationsDep, token: Annotated[str, Query(max_length=100)]) -> Response:
    """Show the form of a one-time link; opening the page does not use up the link."""
    return render(request, "identity/welcome.html", role=links.role_of(token), token=token, error=None, typed={})


@router.post("/welcome", response_class=HTMLResponse)
@PASSWORDS
def accept(
    request: Request,
    links: InvitationsDep,
    sessions: SessionsDep,
    token: Text,
    login: Text,
    password: Text,
    name: Text = "",
) -> Response:
    """Sign up with a one-time link."""
    try:
        person = links.accept(token, login, password, name=name)
    except REFUSALS as error:
        typed = {"login": login[:100], "name": name[:100]}
        role = links.role_of(token)
        return render(request, "identity/welcome.html", role=role, token=token, error=error, typed=typed)
    return _start_session(request, sessions, person, "/admin" if person["role"] == "admin" else "/")


@router.get("/account", response_class=HTMLResponse, dependencies=[needs("member")])
def show_account(request: Request) -> Response:
    """Show the account of the signed-in person."""
    return render(request, "identity/account.html", error=None)


@router.post("/account/password", response_class=HTMLResponse, dependencies=[needs("member")])
@PASSWORDS
def change_password(request: Request, people: PeopleDep, sessions: SessionsDep, old: Text, new: Text) -> Response:
    """Change the password; all other sessions end."""
    person = signed_in(request)
    try:
        people.sign_in(person["login"], old, address=client_address(request.scope))
        changed = people.set_password(person["_id"], new)
    except REFUSALS as error:
        wrong = SignInRefused("the current password is wrong")
        return render(request, "identity/account.html", error=wrong if isinstance(error, SignInRefused) else error)
    visitor_of(request).sign_in(changed, sessions.start(changed))
    return redirect(request, "/account", "Your password has been changed; all other sessions have ended.")


def _start_session(request: Request, sessions: Sessions, person: Person, next: str) -> Response:
    """Start a new session, end the visitor's previous one, and redirect."""
    visitor = visitor_of(request)
    if visitor.session_token:
        sessions.end(visitor.session_token)
    visitor.sign_in(person, sessions.start(person))
    welcome: Callable[[str, str], None] | None = getattr(request.app.state, "welcome", None)
    if welcome:  # the service's, which gives newcomers of a demo what they need
        welcome(person["_id"], person["name"])
    return redirect(request, next, f"Welcome, {person['name']}.")
