"""`squinney commerce`: products and orders listed and shown, categories added and removed, payments settled."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column

from squinney.commerce import breadcrumbs
from squinney.commerce.orders.documents import Order
from squinney.commerce.surface.wording import labelled, readable
from squinney.errors import Invalid
from squinney.http.commands import Cursor, Json, Limit, open_systems, print_json, print_line, print_page, print_result
from squinney.patterns.money import formatted
from squinney.system import Assembled

app = typer.Typer()

Slug = Annotated[str, typer.Argument(help="The category's slug.")]


def service(systems: Assembled, name: str) -> Any:
    """One of the shop's objects: `catalog`, `categories`, `inventory`, `carts` or `orders`."""
    return systems.services["commerce"][name]


def trail(category: Any) -> str:
    """The way from the root to a category: `Music > Jazz`."""
    return " > ".join(crumb["name"] for crumb in breadcrumbs(category))


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
    with open_systems(context) as systems:
        catalog, paged = service(systems, "catalog"), {"cursor": cursor, "limit": limit}
        if category is not None:
            page = catalog.subtree(category, type=type_, sort=sort or "title", **paged)
        else:
            page = catalog.find(sort=sort, **paged, **filters, **({"type": type_} if type_ else {}))
        levels = service(systems, "inventory").levels([product["_id"] for product in page.items])
    columns: list[str | Column] = [
        Column("sku", overflow="fold"),
        Column("title", overflow="fold"),
        "type",
        Column("price", justify="right"),
        Column("available", justify="right"),
    ]

    def row(product: Any) -> list[str]:
        level, pricing = levels.get(product["_id"]), product["pricing"]
        price, available = formatted(pricing["retail"], pricing["currency"]), str(level["qty"] if level else 0)
        return [product["_id"], product["title"], product["type"], price, available]

    print_page(page, as_json, columns, row)


@app.command()
def product(context: typer.Context, sku: str, as_json: Json = False) -> None:
    """Show a product with its categories and stock."""
    with open_systems(context) as systems:
        found = service(systems, "catalog").get_with_categories(sku)
        level = service(systems, "inventory").levels([sku]).get(sku)
    if as_json:
        print_json({**found, "stock": level})
        return
    pricing = found["pricing"]
    print_line(f"{found['_id']}: {found['title']}")
    lines = [
        ("Type", found["type"]),
        ("Price", formatted(pricing["retail"], pricing["currency"])),
        ("Available", str(level["qty"] if level else 0)),
        ("Categories", ", ".join(category["slug"] for category in found["categories"])),
        ("Genre", readable(found["details"].get("genre"))),
        *labelled(found["details"]),
        *((pair["n"], readable(pair["v"])) for pair in found["properties"]),
    ]
    for name, text in lines:
        if text:
            print_line(f"  {name}: {text}")


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
    with open_systems(context) as systems:
        found, paged = service(systems, "orders"), {"cursor": cursor, "limit": limit}
        page = found.all(**paged) if customer is None else found.by_customer(customer, **paged)
    total = Column("total", justify="right")
    print_page(page, as_json, [Column("id", no_wrap=True), "placed", "status", "lines", total, "customer"], _order_row)


def _order_row(order: Order) -> list[str]:
    when, total = f"{order['placed_at']:%Y-%m-%d %H:%M:%S}", formatted(order["total"], order["currency"])
    return [order["_id"], when, order["status"], str(len(order["items"])), total, order.get("customer", "")]


@app.command()
def order(context: typer.Context, order_id: str, as_json: Json = False) -> None:
    """Show an order with its lines."""
    with open_systems(context) as systems:
        found = service(systems, "orders").get(order_id)
    _show_order(found, as_json)


@app.command()
def cancel_order(context: typer.Context, order_id: str, as_json: Json = False) -> None:
    """Cancel an order: what was paid is given back, and its goods are available again."""
    with open_systems(context) as systems:
        found = service(systems, "orders").cancel(order_id)
    _show_order(found, as_json)


def _show_order(found: Any, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_line(f"{found['_id']}: {found['status']}, {formatted(found['total'], found['currency'])}")
    for line in found["items"]:
        print_line(f"  {line['qty']} x {line['sku']} {line['title']} at {formatted(line['price'], found['currency'])}")


@app.command()
def settle(
    context: typer.Context,
    payment_id: Annotated[str, typer.Argument(help="A payment attempt: the cart's id, a colon, and its number.")],
    as_json: Json = False,
) -> None:
    """Ask the provider how a payment stands, and act on it: make the order, reopen the cart, or cancel and restock."""
    with open_systems(context) as systems:
        payment = service(systems, "carts").settle(payment_id)
    print_result(payment, f"{payment['_id']}: {payment['state']}", as_json)


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
    with open_systems(context) as systems:
        added = service(systems, "categories").add(name, slug, parent)
    print_result(added, f"{added['slug']}: {added['name']}", as_json)


@app.command()
def category(context: typer.Context, slug: Slug, as_json: Json = False) -> None:
    """Show a category: where it is, and what is directly below it."""
    with open_systems(context) as systems:
        tree = service(systems, "categories")
        found, below = tree.get(slug), tree.children(slug, limit=200).items
    if as_json:
        print_json({**found, "children": below})
        return
    print_line(f"{trail(found)} (id {found['_id']})")
    for child in below:
        print_line(f"  {child['slug']}: {child['name']}")


@app.command()
def remove_category(
    context: typer.Context,
    slug: Slug,
    children: Annotated[str, typer.Option(help="What is below it: refuse, lift or cascade.")] = "refuse",
    as_json: Json = False,
) -> None:
    """Remove a category."""
    with open_systems(context) as systems:
        removed = service(systems, "categories").remove(slug, children=children)
    print_result({"removed": removed}, f"{removed} removed", as_json)
