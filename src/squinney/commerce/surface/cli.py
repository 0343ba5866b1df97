"""`squinney commerce`: commands for imports, stock, the category tree and carts."""

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

from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Cursor, Json, KeyOption, Limit
from squinney.cli.printing import console, errors, format_counts, print_json, print_line, print_page, print_result
from squinney.commerce.carts.documents import Cart
from squinney.commerce.documents import COUNTS
from squinney.commerce.jobs import CART_SECONDS, STALLED_SECONDS
from squinney.commerce.rules import total
from squinney.commerce.surface import cli_lists
from squinney.commerce.surface.cli_lists import service, trail
from squinney.errors import Invalid
from squinney.patterns.money import formatted

app = typer.Typer(help="Products, categories, stock, carts and orders.", no_args_is_help=True)
app.add_typer(cli_lists.app)


# ---- import ----


@app.command("import")
def import_products(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file of JSON lines, also gzipped; - for standard input.")],
    existing: Annotated[str, typer.Option(help="For products that exist: refuse, skip or replace.")] = "skip",
    as_json: Json = False,
) -> None:
    """Import products. Bad lines are reported by number, and the other lines are imported.

    Ctrl-C stops the import; run it again to continue.
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
    """Yield the lines of the file, and show a progress bar with the remaining time."""
    if str(file) == "-":
        yield iter(sys.stdin.buffer)
        return
    if not file.is_file():
        raise Invalid(f"there is no file {file}", field="file")
    try:
        with _bar(quiet) as bar, bar.open(file, "rb", description="importing") as raw:
            yield iter(gzip.GzipFile(fileobj=raw) if file.suffix == ".gz" else raw)
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid(f"{file} cannot be read completely: {error}", field="file") from error


def _bar(quiet: bool) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(show_speed=True), TimeRemainingColumn()
    return Progress(*columns, console=errors, disable=quiet or not errors.is_terminal)


# ---- stock ----


@app.command()
def stock(
    context: typer.Context,
    sku: str,
    receive: Annotated[int, typer.Option(help="The number of units received.", min=0)] = 0,
    adjust: Annotated[int, typer.Option(help="The number of units found; negative for units lost.")] = 0,
    reason: Annotated[str, typer.Option(help="The reason, for the history.")] = "",
    key: KeyOption = None,
    as_json: Json = False,
) -> None:
    """Show the stock of a SKU and its 20 latest changes; first receive or adjust units if requested."""
    if receive and adjust:
        raise Invalid("use --receive or --adjust, not both", field="adjust")
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
    print_line(f"{sku}: " + ", ".join(f"{name} {level[name]}" for name in COUNTS))
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
    drawing = Tree("categories", hide_root=True)
    remaining = [(drawing, root) for root in reversed(roots)]
    while remaining:
        parent, node = remaining.pop()
        branch = parent.add(Text.assemble(node["name"], "  ", (node["slug"], "dim")))
        remaining += [(branch, child) for child in reversed(node["children"])]
    console.print(drawing)


@app.command()
def move(
    context: typer.Context,
    slug: str,
    parent: Annotated[str, typer.Argument(help="The slug of the new parent; / for the root.")],
    position: Annotated[int | None, typer.Option(help="The position among its siblings, from 0; default last.")] = None,
    as_json: Json = False,
) -> None:
    """Move a category and its descendants."""
    with open_systems(context) as systems:
        moved = service(systems, "categories").move(slug, None if parent == "/" else parent, position)
    print_result(moved, trail(moved), as_json)


@app.command()
def rename(context: typer.Context, slug: str, name: str, as_json: Json = False) -> None:
    """Rename a category, also in the breadcrumbs of its descendants."""
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
    """List the carts with a status, the least recently modified first."""
    with open_systems(context) as systems:
        page = service(systems, "carts").all(status, cursor=cursor, limit=limit)
    columns = Column("id", no_wrap=True), "last modified", "lines", Column("total", justify="right")
    print_page(page, as_json, columns, _cart_row)


def _cart_row(cart: Cart) -> list[str]:
    when = f"{cart['last_modified']:%Y-%m-%d %H:%M:%S}"
    return [cart["_id"], when, str(len(cart["items"])), formatted(total(cart["items"]), cart["currency"])]


@app.command()
def expire(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(help="Expire carts idle for longer than this.", min=0)] = CART_SECONDS,
    as_json: Json = False,
) -> None:
    """Expire idle carts, return orphaned reservations and settle stalled payments; background jobs do this too."""
    with open_systems(context) as systems:
        shop_carts = service(systems, "carts")
        counts = {
            "expired": shop_carts.expire_carts(seconds)["expired"],
            "orphans returned": shop_carts.return_orphans(seconds)["returned"],
            "payments": dict(shop_carts.settle_payments(STALLED_SECONDS)),
        }
    print_result(counts, format_counts({**counts, "payments": format_counts(counts["payments"])}), as_json)
