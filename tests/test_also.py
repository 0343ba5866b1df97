"""The caller's own steps happen with an operation of a system or not at all, whatever the operation."""

from __future__ import annotations

import importlib
import inspect
import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from squinney import assembly
from squinney.ads import AdNetwork
from squinney.analytics import Hits
from squinney.commerce import Catalog, Categories
from squinney.commerce.payments.direct import Moved
from squinney.content import Comments, Moderation, Nodes, Photos
from squinney.content.documents import Strategy
from squinney.errors import Conflict
from squinney.game import World
from squinney.identity import Invitations, People
from squinney.ledger import Accounts
from squinney.mongo.schema import Db, Document
from squinney.social import Network
from squinney.transactions import Step
from tests.crash import shop
from tests.plugins.shelf import Prepared
from tests.systems.content.pictures import jpeg

ADA: Any = {"_id": "ada", "name": "Ada"}
PUBLIC = ["*public*"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Files arrive before the transaction and are swept later; a cart's payment attempt has another test.
LEFT_OVER = ("content.uploads", "content.assets", "content.removals")

# Operations that are one transaction or begin with one, and take no further steps.
WITHOUT = {
    "AdNetwork.click": "shares its transaction with other beacons, which a refusal would refuse too",
    "AdNetwork.conversion": "as click",
    "AdNetwork.impression": "as click",
    "AdNetwork.impressions": "as click",
    "AdNetwork.viewable": "as click",
    "AdNetwork.choose": "the transaction leases a budget for later choices too",
    "AdNetwork.close": "many transactions",
    "BufferedHits.flush": "many transactions",
    "EventLog.import_file": "many transactions",
    "EventLog.record": "a log decides nothing; with a key, the transaction only remembers that",
    "EventLog.record_many": "as record",
    "EventsIntoPages.run": "many transactions, for a migration",
    "ReportDays.update": "many transactions, for a job",
    "Hits.record_many": "many transactions",
    "Carts.abandon": "decided by an update; a job may finish it",
    "Carts.return_orphans": "many transactions, for a job",
    "Carts.settle": "ends what another operation began, with that operation's further steps",
    "Orders.from_cart": "repairs what `checkout` began",
    "Orders.record_refund": "ends what `cancel` began",
    "Orders.refund": "ends what `cancel` began",
    "Categories.add_paths": "many transactions",
    "Network.count_photo": "only a limit",
    "Network.load": "many transactions",
    "World.load_world": "many transactions",
}


class NotToday(Conflict):
    """The caller's own document does not allow it."""


class Operation(NamedTuple):
    """An operation, and the collection and id of a document that it changes."""

    name: str
    act: Callable[..., object]
    collection: str
    document_id: Any


def _ledger(db: Db) -> Iterator[Operation]:
    accounts = Accounts(db)
    ada, ben, empty = (accounts.open("EUR", sum)["_id"] for sum in (100, 0, 0))
    many: Any = [{"src": ada, "dst": ben, "amount": 1}]
    yield Operation("Accounts.transfer", lambda **m: accounts.transfer(ada, ben, 1, **m), "ledger.accounts", ben)
    yield Operation("Accounts.transfer_many", lambda **m: accounts.transfer_many(many, **m), "ledger.accounts", ada)
    yield Operation("Accounts.open", lambda **m: accounts.open("EUR", 5, **m), "", None)
    yield Operation("Accounts.close", lambda **m: accounts.close(empty, **m), "ledger.accounts", empty)


def _carts(db: Db) -> Iterator[Operation]:
    cart_id = shop.shop(db)
    carts, stock = shop.carts(db), shop.inventory(db)
    yield Operation("Carts.add_item", lambda **m: carts.add_item(cart_id, "film", **m), "commerce.stock", "film")
    yield Operation(
        "Carts.set_quantity", lambda **m: carts.set_quantity(cart_id, "film", 1, **m), "commerce.carts", cart_id
    )
    yield Operation("Carts.remove_item", lambda **m: carts.remove_item(cart_id, "film", **m), "commerce.carts", cart_id)
    yield Operation("Inventory.receive", lambda **m: stock.receive("film", 1, **m), "commerce.stock", "film")
    yield Operation("Inventory.adjust", lambda **m: stock.adjust("film", -1, "lost", **m), "commerce.stock", "film")
    mine = carts.new(customer="ann")["_id"]
    carts.add_item(mine, "album", 1)
    buy = lambda **m: carts.buy(mine, lambda payment: Moved([], "ann", "t"), key="k", customer="ann", **m)  # noqa: E731
    yield Operation("Carts.buy", buy, "commerce.carts", mine)
    yield Operation("Carts.checkout", lambda **m: carts.checkout(cart_id, key="k", **m), "commerce.orders", cart_id)


def _orders(db: Db) -> Iterator[Operation]:
    orders = shop.orders(db)
    placed = orders.place([{"sku": "film", "price": 5, "qty": 1}])["_id"]
    at = ("commerce.orders", placed)
    yield Operation("Orders.place", lambda **m: orders.place([{"sku": "a", "price": 5, "qty": 1}], **m), "", None)
    yield Operation("Orders.add_or_increase", lambda **m: orders.add_or_increase(placed, "b", 1, 1, **m), *at)
    yield Operation("Orders.set_quantity", lambda **m: orders.set_quantity(placed, "b", 3, **m), *at)
    yield Operation("Orders.remove_item", lambda **m: orders.remove_item(placed, "b", **m), *at)
    yield Operation("Orders.cancel", lambda **m: orders.cancel(placed, **m), *at)
    cart_id = shop.shop(db)
    shop.carts(db).checkout(cart_id, key="k")
    paid = "commerce.payments", f"{cart_id}:1"
    yield Operation("Orders.cancel", lambda **m: shop.orders(db).cancel(cart_id, **m), *paid)


def _catalog(db: Db) -> Iterator[Operation]:
    catalog, tree = Catalog(db), Categories(db)
    film = {"_id": "film", "type": "Film", "title": "f", "pricing": shop.PRICING}
    top = "commerce.category_tree", "categories"
    yield Operation("Catalog.add", lambda **m: catalog.add(film, **m), "commerce.products", "film")
    yield Operation("Catalog.remove", lambda **m: catalog.remove("film", **m), "commerce.stock", "film")
    yield Operation("Categories.add", lambda **m: tree.add("Top", **m), *top)
    tree.add("Below", parent="top")
    yield Operation("Categories.move", lambda **m: tree.move("below", None, **m), *top)
    yield Operation("Categories.rename", lambda **m: tree.rename("below", "Under", **m), *top)
    yield Operation("Categories.change_slug", lambda **m: tree.change_slug("below", "under", **m), *top)
    yield Operation("Categories.remove", lambda **m: tree.remove("under", **m), *top)


def _nodes(db: Db) -> Iterator[Operation]:
    nodes, photos = Nodes(db), Photos(db)
    folder = nodes.create(None, "folder", "folder", "F", ADA)["_id"]
    page = nodes.create(None, "page", "basic-page", "P", ADA, {"text": "p"})
    nonce, at = page["metadata"]["nonce"], ("content.nodes", page["_id"])
    yield Operation(
        "Nodes.create", lambda **m: nodes.create(folder, "new", "folder", "N", ADA, **m), "content.nodes", folder
    )
    yield Operation("Nodes.edit", lambda **m: nodes.edit(page["_id"], nonce, {"title": "Q"}, **m), *at)
    yield Operation("Nodes.restore", lambda **m: nodes.restore(page["_id"], nonce, **m), *at)
    yield Operation("Nodes.publish", lambda **m: nodes.publish(page["_id"], **m), *at)
    yield Operation("Nodes.unpublish", lambda **m: nodes.unpublish(page["_id"], **m), *at)
    yield Operation("Nodes.move", lambda **m: nodes.move(page["_id"], folder, **m), *at)
    yield Operation("Nodes.remove", lambda **m: nodes.remove(page["_id"], **m), *at)

    def upload(**more: Any) -> None:
        photos.upload(io.BytesIO(jpeg("red")), folder, "photo", author=ADA, **more)

    yield Operation("Photos.upload", upload, "content.nodes", folder)
    photo = nodes.get(folder, "photo")["_id"]
    red = lambda **m: photos.replace(io.BytesIO(jpeg("blue")), photo, **m)  # noqa: E731
    yield Operation("Photos.replace", red, "content.nodes", photo)
    yield Operation("Photos.remove", lambda **m: photos.remove(photo, **m), "content.nodes", photo)


def _comments(strategy: Strategy) -> Callable[[Db], Iterator[Operation]]:
    def operations(db: Db) -> Iterator[Operation]:
        page = Nodes(db).create(None, "page", "basic-page", "P", ADA, {"text": "p"})["_id"]
        comments, at = Comments(db, strategy), ("content.nodes", page)
        slug = comments.post(page, ADA, "first")["slug"]
        yield Operation("Comments.post", lambda **m: comments.post(page, ADA, "second", **m), *at)
        yield Operation("Comments.edit", lambda **m: comments.edit(page, slug, "changed", **m), *at)
        flag = lambda **m: Moderation(db, comments).flag(page, slug, "bob", **m)  # noqa: E731
        yield Operation("Moderation.flag", flag, *at)
        yield Operation("Comments.delete", lambda **m: comments.delete(page, slug, **m), *at)

    return operations


def _social(db: Db) -> Iterator[Operation]:
    network = Network(db)
    ann, bob = (network.join(name, user=name)["id"] for name in ("ann", "bob"))
    users, edges = ("social.users", ann), ("social.edges", {"owner": ann, "other": bob})
    yield Operation("Network.join", lambda **m: network.join("Cid", user="cid", **m), "social.users", "cid")
    yield Operation("Network.circle", lambda **m: network.circle(ann, bob, "friends", **m), *edges)
    yield Operation("Network.uncircle", lambda **m: network.uncircle(ann, bob, "friends", **m), *edges)
    yield Operation("Network.block", lambda **m: network.block(ann, bob, **m), *edges)
    yield Operation("Network.unblock", lambda **m: network.unblock(ann, bob, **m), *edges)
    yield Operation("Network.post", lambda **m: network.post(ann, "status", {"text": "hi"}, PUBLIC, **m), *users)
    post = db["social.posts"].find_one({}, {"_id": 1})
    assert post is not None
    on = ("social.posts", post["_id"])
    yield Operation("Network.comment", lambda **m: network.comment(bob, post["_id"], "well", **m), *on)
    comment = network.comment(bob, post["_id"], "and")
    yield Operation("Network.delete_comment", lambda **m: network.delete_comment(bob, comment, **m), *on)
    yield Operation("Network.delete_post", lambda **m: network.delete_post(ann, post["_id"], **m), *on)
    yield Operation("Network.leave", lambda **m: network.leave(ann, **m), *users)
    yield Operation("Network.erase", lambda **m: network.erase(bob, **m), "social.users", bob)


def _game(db: Db) -> Iterator[Operation]:
    world = World(db)
    world.create_location("yard", description="A yard.", exits={"s": "hall"})
    hall = lambda **m: world.create_location("hall", description="A hall.", exits={"n": "yard"}, **m)  # noqa: E731
    yield Operation("World.create_location", hall, "game.locations", "hall")
    made = lambda **m: world.create_character("Ann", id="ann", location="hall", gold=90, **m)  # noqa: E731
    ann = ("game.characters", "ann")
    yield Operation("World.create_character", made, *ann)
    world.create_character("Bob", id="bob", location="hall")
    world.create_character("Mo", id="mo", location="hall", gold=50, kind="shopkeeper")
    coin = lambda **m: world.create_item("coin", id="coin", location="hall", qty=9, **m)  # noqa: E731
    yield Operation("World.create_item", coin, "game.locations", "hall")
    for name, own in {
        "sack": {"kind": "container"},
        "hat": {"kind": "armor", "region": "head"},
        "axe": {"kind": "weapon"},
        "tea": {"kind": "potion", "heals": 5},
    }.items():
        world.create_item(name, id=name, character="ann", **own)
    world.create_item("rope", id="rope", character="mo", price=5, qty=2)
    acts: dict[str, tuple[Any, ...]] = {
        "say": ("hello",),
        "pick_up": ("coin",),
        "drop": ("coin", 1),
        "give": ("bob", "coin", 1),
        "split": ("coin", 2),
        "put_in": ("sack", "hat"),
        "take_out": ("sack", "hat"),
        "wear": ("hat",),
        "wield": ("axe",),
        "remove": ("hat",),
        "use": ("tea",),
        "adjust": (),
        "buy": ("mo", "rope"),
    }
    for name, arguments in acts.items():
        method, more = getattr(world, name), {"health": -1} if name == "adjust" else {}
        yield Operation(f"World.{name}", lambda f=method, a=arguments, k=more, **m: f("ann", *a, **k, **m), *ann)
    rope = db["game.items"].find_one({"name": "rope", "holder.id": "ann"})
    other = db["game.items"].find_one({"name": "coin", "qty": 2})
    assert rope is not None
    assert other is not None
    yield Operation("World.sell", lambda **m: world.sell("ann", "mo", rope["_id"], **m), *ann)
    yield Operation("World.stack", lambda **m: world.stack("ann", other["_id"], "coin", **m), *ann)
    yield Operation("World.move", lambda **m: world.move("ann", "n", **m), *ann)


def _identity(db: Db) -> Iterator[Operation]:
    people, invitations = People(db), Invitations(db)
    yield Operation("People.sign_up", lambda **m: people.sign_up("ann", "long enough", **m), "identity.logins", "ann")
    token = invitations.create("editor")
    accept = lambda **m: invitations.accept(token, "bob", "long enough", **m)  # noqa: E731
    yield Operation("Invitations.accept", accept, "identity.logins", "bob")
    ann = people.sign_in("ann", "long enough")["_id"]
    again = lambda **m: people.set_password(ann, "another one", **m)  # noqa: E731
    yield Operation("People.set_password", again, "identity.people", ann)


def _ads(db: Db) -> Iterator[Operation]:
    network = AdNetwork(db, secret=b"also")
    price = {"model": "cpm", "bid": 500}
    budget = {"total": 100, "daily": 50, "currency": "EUR"}

    def create(**more: Any) -> None:
        network.create_campaign("c", "Larch", pricing=price, budget=budget, review=True, **more)

    yield Operation("AdNetwork.create_campaign", create, "ads.budgets", "c")
    yield Operation("AdNetwork.fund", lambda **m: network.fund("c", 5, **m), "ads.budgets", "c")


def _analytics(db: Db) -> Iterator[Operation]:
    hits = Hits(db)
    yield Operation("Hits.record", lambda **m: hits.record("s", "/", NOW, **m), "analytics.hits_daily", "any")


SCENES: dict[str, Callable[[Db], Iterator[Operation]]] = {
    "ledger": _ledger,
    "carts": _carts,
    "orders": _orders,
    "catalog": _catalog,
    "nodes": _nodes,
    "separate comments": _comments("separate"),
    "embedded comments": _comments("embedded"),
    "paged comments": _comments("paged"),
    "social": _social,
    "game": _game,
    "identity": _identity,
    "ads": _ads,
    "analytics": _analytics,
}


def contents(db: Db) -> dict[str, list[Document]]:
    """Return all documents, by the name of their collection, without what a refusal may leave."""
    names = sorted(name for name in db.list_collection_names() if not name.startswith(LEFT_OVER))
    return {name: documents for name in names if (documents := list(db[name].find().sort("_id")))}


def noting(number: int) -> Step:
    return Step("my.notes", "n", guard={"count": number}, update={"$inc": {"count": 1}}, refused=NotToday)


@pytest.mark.parametrize("scene", SCENES)
def test_further_steps_happen_with_the_operation_or_not_at_all(
    scene: str, prepared: Prepared, quick_passwords: None
) -> None:
    db = prepared(assembly.collections())
    db["my.notes"].insert_one({"_id": "n", "count": 0})
    for done, operation in enumerate(SCENES[scene](db)):
        before = contents(db)
        with pytest.raises(NotToday):
            operation.act(also=[Step("my.log", "x", insert={}), noting(done + 1)])
        if operation.collection:
            own = Step(operation.collection, operation.document_id, update={"$set": {"mine": True}})
            with pytest.raises(ValueError, match=r"one step per document|must not be on"):
                operation.act(also=[own])
        with pytest.raises(TypeError, match="also must be a list of steps"):
            operation.act(also=iter([noting(done)]))
        assert contents(db) == before, operation.name
        operation.act(also=[noting(done)])
        assert db["my.notes"].find_one({}, {"_id": 0, "count": 1}) == {"count": done + 1}, operation.name
        without_notes = {name: documents for name, documents in contents(db).items() if name != "my.notes"}
        assert without_notes != {name: documents for name, documents in before.items() if name != "my.notes"}, (
            operation.name
        )


def _public_operations() -> Iterator[tuple[str, Any]]:
    for system in assembly.SYSTEMS:
        package = importlib.import_module(f"squinney.{system.name}")
        for name in package.__all__:
            if inspect.isclass(member := getattr(package, name)):
                for method, function in inspect.getmembers(member, inspect.isfunction):
                    if not method.startswith("_"):
                        yield f"{name}.{method}", function


def _taking() -> set[str]:
    return {name for name, function in _public_operations() if "also" in inspect.signature(function).parameters}


def _is_a_transaction(function: Any) -> bool:
    atomic = (function.__doc__ or "").partition("Atomic:")[2].partition("After a crash:")[0]
    return any(word in atomic for word in ("transaction", "`Transactions` run", "one run"))


def test_every_operation_that_is_one_transaction_takes_further_steps() -> None:
    operations = dict(_public_operations())
    assert {name for name, function in operations.items() if _is_a_transaction(function)} - _taking() == set(WITHOUT)


def test_every_operation_that_takes_further_steps_is_tried() -> None:
    source = inspect.getsource(inspect.getmodule(_ledger))  # type: ignore[arg-type]
    missing = [name for name in _taking() if f'"{name}"' not in source and f'"{name.partition(".")[2]}":' not in source]
    assert missing == []


def test_every_operation_that_takes_further_steps_is_documented() -> None:
    page = (Path(__file__).parents[1] / "docs/transactions.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| `")]
    for name in _taking():
        kind, _, method = name.partition(".")
        row = next(row for row in rows if f"`{kind}`" in row.split("|")[1])
        assert f"`{method}`" in row or "every action" in row, name
