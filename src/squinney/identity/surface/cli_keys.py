"""`squinney keys`: API keys for trusted servers."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, cast

import typer
from rich.table import Column

from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Cursor, Json, Limit
from squinney.cli.printing import console, print_json, print_line, print_page
from squinney.clock import utcnow
from squinney.errors import Invalid
from squinney.identity import ApiKey, Keys
from squinney.system import Assembled

app = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)


def _keys(systems: Assembled) -> Keys:
    return cast(Keys, systems.services["identity"]["keys"])


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="A name for the server that uses the key.")],
    scope: Annotated[
        list[str], typer.Option(help="A scope, such as ledger:read, or *:read for all systems; can be repeated.")
    ],
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Days until it expires; by default never.")] = None,
    as_json: Json = False,
) -> None:
    """Create a key and print it; it cannot be shown again."""
    expires_at = utcnow() + timedelta(days=days) if days else None
    with open_systems(context) as systems:
        known = {"*", *(system.name for system in systems.systems)}
        if unknown := [wanted for wanted in scope if wanted.partition(":")[0] not in known]:
            raise Invalid(f"scope {unknown[0]}: there is no system of this name", field="scope")
        key, shown = _keys(systems).create(name, scope, expires_at=expires_at)
    if as_json:
        print_json({**key, "key": shown})
        return
    print_line(shown)
    console.print("Copy the key now: it is not stored and cannot be shown again.", style="dim")


@app.command("list")
def list_keys(context: typer.Context, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List all keys, oldest first."""
    with open_systems(context) as systems:
        page = _keys(systems).all(cursor=cursor, limit=limit)
    print_page(page, as_json, [Column("id", no_wrap=True), "name", "scopes", "last used", "ends"], _row)


def _row(key: ApiKey) -> list[str]:
    used = f"{key['used_at']:%Y-%m-%d %H:%M}" if "used_at" in key else "never"
    ends = "revoked" if "revoked_at" in key else f"{key['expires_at']:%Y-%m-%d}" if "expires_at" in key else ""
    return [key["_id"], key["name"], ", ".join(key["scopes"]), used, ends]


@app.command()
def revoke(
    context: typer.Context, key: Annotated[str, typer.Argument(help="The id of the key, as shown by `keys list`.")]
) -> None:
    """Revoke a key; running services refuse it within 5 seconds."""
    with open_systems(context) as systems:
        revoked = _keys(systems).revoke(key)
    print_line(f"{revoked['name']} is revoked")
