"""`squinney users`: the people who can sign in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, cast

import typer
from rich.table import Column

from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Cursor, Json, Limit
from squinney.cli.printing import print_line, print_page, print_result
from squinney.identity import Invitations, People, Person
from squinney.system import Assembled

app = typer.Typer(help="Add people and change their roles.", no_args_is_help=True)
Password = Annotated[
    str, typer.Option(prompt=True, hide_input=True, confirmation_prompt=True, help="Prompted for if not given.")
]
Name = Annotated[str, typer.Option(help="The displayed name; the login by default.")]
Role = Annotated[str, typer.Option(help="member, editor or admin.")]


def _people(systems: Assembled) -> People:
    return cast(People, systems.services["identity"]["people"])


@app.command()
def add(
    context: typer.Context,
    login: str,
    password: Password,
    name: Name = "",
    role: Role = "member",
    as_json: Json = False,
) -> None:
    """Add a person."""
    with open_systems(context) as systems:
        person = _people(systems).sign_up(login, password, name=name, role=role)
    print_result(person, f"{person['login']} can sign in as {person['role']}", as_json)


@app.command()
def invite(
    context: typer.Context,
    role: Role = "member",
    base: Annotated[str, typer.Option(help="The URL of the site.")] = "http://127.0.0.1:8080",
) -> None:
    """Print a one-time link to sign up with this role; it is valid for 24 hours."""
    with open_systems(context) as systems:
        token = cast(Invitations, systems.services["identity"]["invitations"]).create(role)
    print_line(f"{base.rstrip('/')}/welcome?token={token}")


@app.command("list")
def list_people(context: typer.Context, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List all people, oldest first."""
    with open_systems(context) as systems:
        page = _people(systems).all(cursor=cursor, limit=limit)
    print_page(page, as_json, [Column("id", no_wrap=True), "login", "name", "role", "may sign in"], _row)


def _row(person: Person) -> list[str]:
    return [person["_id"], person["login"], person["name"], person["role"], "no" if "disabled_at" in person else "yes"]


@app.command()
def role(
    context: typer.Context,
    login: str,
    role: Annotated[str, typer.Argument(help="member, editor or admin.")],
    as_json: Json = False,
) -> None:
    """Change a person's role."""
    _change(context, login, "now has the role {role}", as_json, lambda people, person: people.set_role(person, role))


def _change(
    context: typer.Context, login: str, outcome: str, as_json: bool, change: Callable[[People, str], Person]
) -> None:
    with open_systems(context) as systems:
        people = _people(systems)
        person = change(people, people.by_login(login)["_id"])
    print_result(person, f"{person['login']} {outcome.format(**person)}", as_json)


@app.command()
def disable(context: typer.Context, login: str, as_json: Json = False) -> None:
    """Disable a person: they cannot sign in, and their sessions end."""
    _change(context, login, "can no longer sign in", as_json, People.disable)


@app.command()
def enable(context: typer.Context, login: str, as_json: Json = False) -> None:
    """Allow a disabled person to sign in again."""
    _change(context, login, "can sign in again", as_json, People.enable)


@app.command()
def password(context: typer.Context, login: str, password: Password, as_json: Json = False) -> None:
    """Change a person's password and end all their sessions."""
    outcome = "has a new password; all sessions have ended"
    _change(context, login, outcome, as_json, lambda people, person: people.set_password(person, password))
