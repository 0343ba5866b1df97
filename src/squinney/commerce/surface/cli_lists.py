"""`squinney commerce`: commands for products, orders, payments and single categories."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column

from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Cursor, Json, Limit
from squinney.cli.printing import print_page, print_result
from squinney.commerce import breadcrumbs
from squinney.commerce.orders.documents import Order
from squinney.commerce.surface.wording import labelled, readable
from squinney.errors import Invalid
from squinney.patterns.money import formatted
from squinney.patterns.paging import all_items
from squinney.system import Assembled

app = typer.Typer()

Slug = Annotated[str, typer.Argument(help="The category's slug.")]


def service(systems: Assembled, name: str) -> Any:
    """Return one of the shop's services: `catalog`, `categories`, `inventory`, `carts` or `orders`."""
    return systems.services["commerce"][name]


def trail(category: Any) -> str:
    """Format the path from the root to a category: `Music > Jazz`."""
    return " > ".join(crumb["name"] for crumb in breadcrumbs(category))


# ---- products ----


@app.command()
def products(
    context: typer.Context,
    words: Annotated[str | None, typer.Option(help="Search for these words; best matches first.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Only titles that begin with this text.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only products of this type.")] = None,
    category: Annotated[
        str | None, typer.Option(help="Only products in the category with this slug or in its descendants.")
    ] = None,
    genre: Annotated[str | None, typer.Option(help="Only products of this genre.")] = None,
    sort: Annotated[str | None, typer.Option(help="title, price, discount, newest, oldest, -title or -price.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List products with their prices and available quantities."""
    # guard: products are filtered by genre
    given = {"words": words, "title_prefix": prefix, "genre": genre}
    filters = {name: value for name, value in given.items() if value is not None}
    # guard: --category can be combined only with --type
    if category is not None and filters:
        raise Invalid("--category can be combined only with --type", field="category")
    with open_systems(context) as systems:
        catalog, paged = service(systems, "catalog"), {"cursor": cursor, "limit": limit}
        if category is not None:
            # guard: the products of a category are filtered by type
            page = catalog.subtree(category, type=type_, sort=sort or "title", **paged)
        else:
            # guard: products are listed in the requested order
            # guard: products are filtered by type
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
        product = service(systems, "catalog").get_with_categories(sku)
        level = service(systems, "inventory").levels([sku]).get(sku)
    pricing = product["pricing"]
    fields = [
        ("Type", product["type"]),
        ("Price", formatted(pricing["retail"], pricing["currency"])),
        ("Available", str(level["qty"] if level else 0)),
        ("Categories", ", ".join(category["slug"] for category in product["categories"])),
        ("Genre", readable(product["details"].get("genre"))),
        *labelled(product["details"]),
        *((pair["n"], readable(pair["v"])) for pair in product["properties"]),
    ]
    lines = [f"{product['_id']}: {product['title']}", *(f"  {name}: {text}" for name, text in fields if text)]
    print_result({**product, "stock": level}, "\n".join(lines), as_json)


# ---- orders ----


@app.command()
def orders(
    context: typer.Context,
    customer: Annotated[str | None, typer.Option(help="Only the orders of this customer.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List orders, newest first."""
    with open_systems(context) as systems:
        # guard: orders continue after the cursor
        orders, paged = service(systems, "orders"), {"cursor": cursor, "limit": limit}
        # guard: orders are filtered by customer
        page = orders.all(**paged) if customer is None else orders.by_customer(customer, **paged)
    total = Column("total", justify="right")
    print_page(page, as_json, [Column("id", no_wrap=True), "placed", "status", "lines", total, "customer"], _order_row)


def _order_row(order: Order) -> list[str]:
    when, total = f"{order['placed_at']:%Y-%m-%d %H:%M:%S}", formatted(order["total"], order["currency"])
    return [order["_id"], when, order["status"], str(len(order["items"])), total, order.get("customer", "")]


@app.command()
def order(context: typer.Context, order_id: str, as_json: Json = False) -> None:
    """Show an order with its lines."""
    with open_systems(context) as systems:
        order = service(systems, "orders").get(order_id)
    _show_order(order, as_json)


@app.command()
def cancel_order(context: typer.Context, order_id: str, as_json: Json = False) -> None:
    """Cancel an order; a paid order is refunded and its goods are restocked."""
    with open_systems(context) as systems:
        order = service(systems, "orders").cancel(order_id)
    _show_order(order, as_json)


def _show_order(order: Any, as_json: bool) -> None:
    currency = order["currency"]
    lines = [
        f"{order['_id']}: {order['status']}, {formatted(order['total'], currency)}",
        *(
            f"  {line['qty']} x {line['sku']} {line['title']} at {formatted(line['price'], currency)}"
            for line in order["items"]
        ),
    ]
    print_result(order, "\n".join(lines), as_json)


@app.command()
def settle(
    context: typer.Context,
    payment_id: Annotated[str, typer.Argument(help="The cart's id, a colon, and the number of the attempt.")],
    as_json: Json = False,
) -> None:
    """Ask the provider for the state of a payment and apply it.

    This creates the order, reopens the cart, or cancels the order and restocks its goods.
    """
    with open_systems(context) as systems:
        payment = service(systems, "carts").settle(payment_id)
    print_result(payment, f"{payment['_id']}: {payment['state']}", as_json)


# ---- categories ----


@app.command()
def add_category(
    context: typer.Context,
    name: str,
    slug: Annotated[str | None, typer.Option(help="The name in URLs; default made from the name.")] = None,
    parent: Annotated[str | None, typer.Option(help="The slug of the parent; default none, which adds a root.")] = None,
    as_json: Json = False,
) -> None:
    """Add a category as the last child of its parent."""
    with open_systems(context) as systems:
        # guard: a new category has the given parent
        # guard: a new category has the given slug
        added = service(systems, "categories").add(name, slug, parent)
    print_result(added, f"{added['slug']}: {added['name']}", as_json)


@app.command()
def category(context: typer.Context, slug: Slug, as_json: Json = False) -> None:
    """Show a category with its ancestors and all its children."""
    with open_systems(context) as systems:
        tree = service(systems, "categories")
        category = tree.get(slug)
        children = list(all_items(lambda cursor: tree.children(slug, cursor=cursor, limit=1_000)))
    below = (f"  {child['slug']}: {child['name']}" for child in children)
    lines = [f"{trail(category)} (id {category['_id']})", *below]
    print_result({**category, "children": children}, "\n".join(lines), as_json)


@app.command()
def remove_category(
    context: typer.Context,
    slug: Slug,
    children: Annotated[str, typer.Option(help="For its children: refuse, lift or cascade.")] = "refuse",
    as_json: Json = False,
) -> None:
    """Remove a category."""
    with open_systems(context) as systems:
        # guard: --children selects what happens to the children of a removed category
        removed = service(systems, "categories").remove(slug, children=children)
    print_result({"removed": removed}, f"{removed} removed", as_json)
