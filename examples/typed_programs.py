"""A small program of each system, with types: what a type checker sees of Squinney in strict mode."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from squinney.ads import AdNetwork
from squinney.analytics import Hits
from squinney.commerce import Carts, Catalog, Inventory, TestGateway
from squinney.content import Author, Comments, Nodes
from squinney.game import World
from squinney.identity import People, Person
from squinney.ledger import Account, Accounts
from squinney.mongo.schema import Db
from squinney.social import PUBLIC, Network
from squinney.testing import Explorer, Sweep
from squinney.transactions import Key, Step

if TYPE_CHECKING:  # strict type checkers refuse a name that does not exist, and also a needless `ignore`
    from squinney.testing import Nonexistent  # type: ignore[attr-defined]  # noqa: F401


def ledger(db: Db) -> int:
    """Move money together with a write of one's own, and return what is left."""
    accounts = Accounts(db)
    ada: Account = accounts.open("EUR", 10_000, name="Ada")
    bakery = accounts.open("EUR", name="Corner bakery")
    invoice = Step("invoices", 7, insert={"paid": True})
    accounts.transfer(ada["_id"], bakery["_id"], 1_250, key=Key("order 42", ada["_id"]), also=[invoice])
    balance: int = accounts.get(ada["_id"])["balance"]
    return balance


def commerce(db: Db) -> str:
    """Sell an album, and return the order's status."""
    price = {"list": 1_500, "retail": 1_200, "currency": "EUR"}
    Catalog(db).add({"_id": "blue", "type": "Audio Album", "title": "Blue Tuesday", "pricing": price})
    Inventory(db).receive("blue", 3)
    carts = Carts(db, payments=TestGateway(db))
    cart = carts.new()["_id"]
    carts.add_item(cart, "blue", 2)
    return carts.checkout(cart, key="click 1")["status"]


def content(db: Db) -> int:
    """Publish an entry with a comment, and return the number of comments."""
    nodes, ada = Nodes(db), Author(_id="ada", name="Ada")
    blog = nodes.publish(nodes.create(None, "blog", "blog", "Our blog", ada))
    entry = nodes.publish(nodes.create(blog, "hello", "blog-entry", "Hello", ada, {"text": "*Hi*"}))
    comments = Comments(db)
    comments.post(entry["_id"], ada, "First.")
    return len(comments.page(entry["_id"]).items)


def ads(db: Db) -> bool:
    """Show an ad, and return whether its impression was counted."""
    network = AdNetwork(db)
    network.create_campaign("boots", "Larch", pricing={"model": "cpm", "bid": 250}, budget={"total": 100_00})
    creative = {"kind": "text", "title": "Boots", "text": "For wet leaves", "url": "https://example.com/boots"}
    network.place("boots", "news", "top", {"unit": "boots-1", "creative": creative})
    serve = network.choose("news", "top")[0]
    counted = network.impression(serve.serve_id)
    network.close()
    return counted


def social(db: Db) -> str:
    """Deliver a post, and return the reader's newest item."""
    network = Network(db)
    ann, bob = network.join("Ann")["id"], network.join("Bob")["id"]
    network.circle(bob, ann, "friends")
    network.post(ann, "status", {"text": "Soup at seven"}, [PUBLIC])
    network.deliver()
    detail: str = network.news(bob).items[0]["detail"]["text"]
    return detail


def game(db: Db) -> list[str]:
    """Take a lamp, and return what its finder carries."""
    world = World(db)
    world.create_location("hall", name="Hall", description="A cold hall.")
    ann = world.create_character("Ann", location="hall")["_id"]
    world.pick_up(ann, world.create_item("lamp", location="hall")["_id"])
    return [thing["name"] for thing in world.inventory(ann)]


def analytics(db: Db) -> int:
    """Record a hit, and return the day's count."""
    start, end = datetime(2026, 5, 17, tzinfo=UTC), datetime(2026, 5, 18, tzinfo=UTC)
    Hits(db).record("example.org", "/a", start)
    return Hits(db).site_total("example.org", start, end)


def identity(db: Db) -> Person:
    """Sign somebody up, and return the person."""
    return People(db).sign_up("ada", "correct horse battery", name="Ada")


def testing(sweep: Sweep, explore: Explorer) -> bool:
    """Use the fixtures of pytest by their types, and return whether all schedules were played."""
    sweep(lambda db: None, ledger, lambda db: None, ways=["after"])
    return explore([ledger, ledger], schedules=25).complete
