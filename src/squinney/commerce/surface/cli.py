"""`squinney commerce`: the shop from the command line."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from squinney.commerce.carts.documents import Cart
from squinney.commerce.carts.rules import total
from squinney.commerce.jobs import CART_SECONDS, STALLED_SECONDS
from squinney.commerce.surface import cli_lists
from squinney.commerce.surface.cli_lists import service, trail
from squinney.errors import Invalid
from squinney.http.commands import (
    Cursor,
    Json,
    KeyOption,
    Limit,
    console,
    errors,
    format_counts,
    open_systems,
    print_json,
    print_line,
    print_page,
    print_result,
)
from squinney.patterns.money import formatted

app = typer.Typer(help="Products, categories, stock, carts and orders.", no_args_is_help=True)
app.add_typer(cli_lists.app)


# ---- import ----


@app.command("import")
def import_products(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="JSON lines, perhaps gzipped; - for standard input.")],
    existing: Annotated[str, typer.Option(help="A SKU that is there: refuse, skip or replace.")] = "skip",
    as_json: Json = False,
) -> None:
    """Import products; bad lines are reported by number and do not stop the others.

    Ctrl-C stops between two lines; run it again to go on where it was.
    """
    with open_systems(context) as systems, _lines(file, quiet=as_json) as lines:
        report = service(systems, "catalog").import_products(lines, existing=existing)
    for number, reason in report.bad[:100]:
        errors.print(f"line {number}: {reason}", highlight=False, soft_wrap=True)
    summary = f"{report.imported} imported, {report.replaced} replaced, {report.skipped} skipped, {report.refused} bad"
    print_result(report.__dict__, summary, as_json)
    if report.refused:
        raise typer.Exit(1)


@contextmanager
def _lines(file: Path, *, quiet: bool) -> Iterator[Iterator[bytes]]:
    """The file's lines, with a bar that shows how much of it was read and how long the rest will take."""
    if str(file) == "-":
        yield iter(sys.stdin.buffer)
        return
    if not file.is_file():
        raise Invalid(f"there is no file {file}", field="file")
    try:
        with _bar(quiet) as bar, bar.open(file, "rb", description="importing") as raw:
            yield iter(gzip.GzipFile(fileobj=raw) if file.suffix == ".gz" else raw)
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid(f"{file} cannot be read to its end: {error}", field="file") from error


def _bar(quiet: bool) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(show_speed=True), TimeRemainingColumn()
    return Progress(*columns, console=errors, disable=quiet or not errors.is_terminal)


# ---- stock ----


@app.command()
def stock(
    context: typer.Context,
    sku: str,
    receive: Annotated[int, typer.Option(help="Units that arrived.", min=0)] = 0,
    adjust: Annotated[int, typer.Option(help="Units found, or lost when negative.")] = 0,
    reason: Annotated[str, typer.Option(help="Why, for the history.")] = "",
    key: KeyOption = None,
    as_json: Json = False,
) -> None:
    """Show a SKU's stock and history, after receiving or adjusting it."""
    if receive and adjust:
        raise Invalid("give --receive or --adjust, not both", field="adjust")
    with open_systems(context) as systems:
        inventory = service(systems, "inventory")
        if receive:
            inventory.receive(sku, receive, reason=reason, key=key)
        if adjust:
            inventory.adjust(sku, adjust, reason, key=key)
        level, history = inventory.level(sku), inventory.movements(sku, limit=20).items
    if as_json:
        print_json({"stock": level, "movements": history})
        return
    figures = ("received", "adjusted", "qty", "carted", "sold")
    print_line(f"{sku}: " + ", ".join(f"{name} {level[name]}" for name in figures))
    table = Table("at", "kind", Column("units", justify="right"), "reason")
    for move in history:
        table.add_row(f"{move['at']:%Y-%m-%d %H:%M:%S}", move["kind"], str(move["qty"]), move["reason"])
    console.print(table)


# ---- categories ----


@app.command()
def tree(context: typer.Context, as_json: Json = False) -> None:
    """Show the whole category tree."""
    with open_systems(context) as systems:
        roots = service(systems, "categories").tree()
    if as_json:
        print_json(roots)
        return
    drawn = Tree("categories", hide_root=True)
    below = [(drawn, root) for root in reversed(roots)]
    while below:
        parent, node = below.pop()
        branch = parent.add(Text.assemble(node["name"], "  ", (node["slug"], "dim")))
        below += [(branch, child) for child in reversed(node["children"])]
    console.print(drawn)


@app.command()
def move(
    context: typer.Context,
    slug: str,
    parent: Annotated[str, typer.Argument(help="The new parent's slug; / for the root.")],
    position: Annotated[int | None, typer.Option(help="Its place among its siblings, from 0; last without.")] = None,
    as_json: Json = False,
) -> None:
    """Move a category with everything below it."""
    with open_systems(context) as systems:
        moved = service(systems, "categories").move(slug, None if parent == "/" else parent, position)
    print_result(moved, trail(moved), as_json)


@app.command()
def rename(context: typer.Context, slug: str, name: str, as_json: Json = False) -> None:
    """Rename a category, in every breadcrumb."""
    with open_systems(context) as systems:
        renamed = service(systems, "categories").rename(slug, name)
    print_result(renamed, trail(renamed), as_json)


# ---- carts ----


@app.command()
def carts(
    context: typer.Context,
    status: Annotated[str, typer.Option(help="active, pending, complete, expiring or expired.")] = "active",
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List carts in a status, the longest untouched first."""
    with open_systems(context) as systems:
        page = service(systems, "carts").all(status, cursor=cursor, limit=limit)
    columns = Column("id", no_wrap=True), "last modified", "lines", Column("worth", justify="right")
    print_page(page, as_json, columns, _cart_row)


def _cart_row(cart: Cart) -> list[str]:
    when = f"{cart['last_modified']:%Y-%m-%d %H:%M:%S}"
    return [cart["_id"], when, str(len(cart["items"])), formatted(total(cart["items"]), cart["currency"])]


@app.command()
def expire(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(help="How long a cart may lie untouched.", min=0)] = CART_SECONDS,
    as_json: Json = False,
) -> None:
    """End idle carts, return orphaned reservations and settle stalled payments; the background jobs do this too."""
    with open_systems(context) as systems:
        services = service(systems, "carts")
        counts = {
            "expired": services.expire_carts(seconds)["expired"],
            "orphans returned": services.return_orphans(seconds)["returned"],
            "payments": dict(services.settle_payments(STALLED_SECONDS)),
        }
    print_result(counts, format_counts({**counts, "payments": format_counts(counts["payments"])}), as_json)
