"""`squinney commerce`: products and orders listed and shown, categories added and removed, payments settled."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column, Table

from squinney.commerce.surface.wording import labelled, readable
from squinney.errors import Invalid
from squinney.http.commands import Cursor, Json, console, print_json, ready
from squinney.patterns.money import shown
from squinney.system import Assembled

app = typer.Typer()

Limit = Annotated[int, typer.Option(help="How many.", min=1, max=200)]
Slug = Annotated[str, typer.Argument(help="The category's slug.")]


def _service(systems: Assembled, name: str) -> Any:
    return systems.services["commerce"][name]


def _say(line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True)


def _print_page(page: Any, table: Table) -> None:
    console.print(table)
    if page.next:
        _say(f"more: --cursor {page.next}")


# ---- products ----


@app.command()
def products(
    context: typer.Context,
    words: Annotated[str | None, typer.Option(help="Words to search for; the best come first.")] = None,
    prefix: Annotated[str | None, typer.Option(help="How the title begins.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    category: Annotated[str | None, typer.Option(help="A category's slug; what is below it counts too.")] = None,
    genre: Annotated[str | None, typer.Option(help="Only of this genre.")] = None,
    sort: Annotated[str | None, typer.Option(help="title, price, discount, newest, oldest, -title or -price.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List products with their prices and what is available."""
    given = {"words": words, "title_prefix": prefix, "genre": genre}
    filters = {name: value for name, value in given.items() if value is not None}
    if category is not None and filters:
        raise Invalid("--category goes with --type alone: give the one or the others", field="category")
    with ready(context) as systems:
        catalog, paged = _service(systems, "catalog"), {"cursor": cursor, "limit": limit}
        if category is not None:
            page = catalog.subtree(category, type=type_, sort=sort or "title", **paged)
        else:
            page = catalog.find(sort=sort, **paged, **filters, **({"type": type_} if type_ else {}))
        levels = _service(systems, "inventory").levels([product["_id"] for product in page.items])
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    table = Table(
        Column("sku", overflow="fold"),
        Column("title", overflow="fold"),
        "type",
        Column("price", justify="right"),
        Column("available", justify="right"),
    )
    for product in page.items:
        level, pricing = levels.get(product["_id"]), product["pricing"]
        price, available = shown(pricing["retail"], pricing["currency"]), str(level["qty"] if level else 0)
        table.add_row(product["_id"], product["title"], product["type"], price, available)
    _print_page(page, table)


@app.command()
def product(context: typer.Context, sku: str, as_json: Json = False) -> None:
    """Show a product with its categories and stock."""
    with ready(context) as systems:
        found = _service(systems, "catalog").get_with_categories(sku)
        level = _service(systems, "inventory").levels([sku]).get(sku)
    if as_json:
        print_json({**found, "stock": level})
        return
    pricing = found["pricing"]
    _say(f"{found['_id']}: {found['title']}")
    lines = [
        ("Type", found["type"]),
        ("Price", shown(pricing["retail"], pricing["currency"])),
        ("Available", str(level["qty"] if level else 0)),
        ("Categories", ", ".join(category["slug"] for category in found["categories"])),
        ("Genre", readable(found["details"].get("genre"))),
        *labelled(found["details"]),
        *((pair["n"], readable(pair["v"])) for pair in found["properties"]),
    ]
    for name, text in lines:
        if text:
            _say(f"  {name}: {text}")


# ---- orders ----


@app.command()
def orders(
    context: typer.Context,
    customer: Annotated[str | None, typer.Option(help="Only this customer's.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List orders, the newest first."""
    with ready(context) as systems:
        service, paged = _service(systems, "orders"), {"cursor": cursor, "limit": limit}
        page = service.all(**paged) if customer is None else service.by_customer(customer, **paged)
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    table = Table(Column("id", no_wrap=True), "placed", "status", "lines", Column("total", justify="right"), "customer")
    for found in page.items:
        when, total = f"{found['placed_at']:%Y-%m-%d %H:%M:%S}", shown(found["total"], found["currency"])
        lines = str(len(found["items"]))
        table.add_row(found["_id"], when, found["status"], lines, total, found.get("customer", ""))
    _print_page(page, table)


@app.command()
def order(context: typer.Context, order_id: str, as_json: Json = False) -> None:
    """Show an order with its lines."""
    with ready(context) as systems:
        found = _service(systems, "orders").get(order_id)
    _show_order(found, as_json)


@app.command()
def cancel_order(context: typer.Context, order_id: str, as_json: Json = False) -> None:
    """Cancel an order: what was paid is given back, and its goods are available again."""
    with ready(context) as systems:
        found = _service(systems, "orders").cancel(order_id)
    _show_order(found, as_json)


def _show_order(found: Any, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    _say(f"{found['_id']}: {found['status']}, {shown(found['total'], found['currency'])}")
    for line in found["items"]:
        _say(f"  {line['qty']} x {line['sku']} {line['title']} at {shown(line['price'], found['currency'])}")


@app.command()
def settle(
    context: typer.Context,
    payment_id: Annotated[str, typer.Argument(help="A payment attempt: the cart's id, a colon, and its number.")],
    as_json: Json = False,
) -> None:
    """Ask the provider how a payment stands, and act on it: make the order, reopen the cart, or cancel and restock."""
    with ready(context) as systems:
        payment = _service(systems, "carts").settle(payment_id)
    if as_json:
        print_json(payment)
    else:
        _say(f"{payment['_id']}: {payment['state']}")


# ---- categories ----


@app.command()
def add_category(
    context: typer.Context,
    name: str,
    slug: Annotated[str | None, typer.Option(help="Its name in addresses; made of the name without.")] = None,
    parent: Annotated[
        str | None, typer.Option(help="The slug of the category it is below; at the top without.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add a category as the last one below its parent."""
    with ready(context) as systems:
        added = _service(systems, "categories").add(name, slug, parent)
    if as_json:
        print_json(added)
    else:
        _say(f"{added['slug']}: {added['name']}")


@app.command()
def category(context: typer.Context, slug: Slug, as_json: Json = False) -> None:
    """Show a category: where it is, and what is directly below it."""
    with ready(context) as systems:
        tree = _service(systems, "categories")
        found, below = tree.get(slug), tree.children(slug, limit=200).items
    if as_json:
        print_json({**found, "children": below})
        return
    names = [*(ancestor["name"] for ancestor in reversed(found["ancestors"])), found["name"]]
    _say(f"{' > '.join(names)} (id {found['_id']})")
    for child in below:
        _say(f"  {child['slug']}: {child['name']}")


@app.command()
def remove_category(
    context: typer.Context,
    slug: Slug,
    children: Annotated[str, typer.Option(help="What is below it: refuse, lift or cascade.")] = "refuse",
    as_json: Json = False,
) -> None:
    """Remove a category."""
    with ready(context) as systems:
        removed = _service(systems, "categories").remove(slug, children=children)
    if as_json:
        print_json({"removed": removed})
    else:
        _say(f"{removed} removed")
