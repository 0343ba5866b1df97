"""Operations with a further step of the caller's crash: both happen, or neither does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from squinney.content import Comments, Nodes
from squinney.content.documents import Strategy
from squinney.game import World
from squinney.mongo.schema import Db
from squinney.social import Network
from squinney.testing import Case
from tests.crash import shop
from tests.notes import put_note, sign, signed_by

ADA: Any = {"_id": "ada", "name": "Ada"}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def _with_note(prepare: Callable[[Db], Any]) -> Callable[[Db], Any]:
    def prepared(db: Db) -> Any:
        put_note(db)
        return prepare(db)

    return prepared


def _once(act: Callable[[Db, Any], object], count: Callable[[Db], int], before: int) -> Callable[[Db, Any], None]:
    """Return a check: the note is signed if the operation has happened; a repeat with the key makes that so, once."""

    def check(db: Db, state: Any) -> None:
        assert (signed_by(db) == "me") == (count(db) == before + 1)
        for _ in range(2):
            act(db, state)
        assert (signed_by(db), count(db)) == ("me", before + 1)

    return check


# ---- checkout ----


def _check_out(db: Db, cart_id: str) -> None:
    shop.carts(db).checkout(cart_id, key="k", also=sign("me"))


def _sold_if_signed(db: Db, cart_id: str) -> None:
    shop.paired(db)
    assert (signed_by(db) == "me") == (shop.carts(db).get(cart_id)["status"] == "complete")


def _place(db: Db, state: Any) -> None:
    shop.orders(db).place([{"sku": "film", "price": 5, "qty": 1}], key="k", also=sign("me"))


# ---- the game ----


def _rooms(db: Db) -> None:
    world = World(db)
    world.create_location("yard", description="A yard.", exits={"s": "hall"})
    world.create_location("hall", description="A hall.", exits={"n": "yard"})
    world.create_character("Ann", id="ann", location="hall")


def _walk(db: Db, state: Any) -> None:
    World(db).move("ann", "n", also=sign("me"))


def _moved_if_signed(db: Db, state: Any) -> None:
    assert (signed_by(db) == "me") == (db["game.characters"].count_documents({"location.id": "yard"}) == 1)


# ---- social ----


def _join(db: Db, state: Any) -> None:
    Network(db).join("Cid", user="cid", also=sign("me"))


def _joined_if_signed(db: Db, state: Any) -> None:
    assert (signed_by(db) == "me") == (db["social.users"].count_documents({}) == 3)


def _people(db: Db) -> str:
    for name in ("ann", "bob"):
        Network(db).join(name, user=name)
    return Network(db).post("ann", "status", {"text": "hello"}, ["*public*"])["id"]


def _post(db: Db, state: Any) -> None:
    Network(db).post("ann", "status", {"text": "more"}, ["*public*"], key="k", also=sign("me"))


def _comment(db: Db, post: str) -> None:
    Network(db).comment("bob", post, "well", key="k", also=sign("me"))


def _let_tasks_be_due(db: Db) -> None:
    db["squinney.tasks"].update_many({}, {"$set": {"due_at": LONG_AGO}})


# ---- content ----


def _talk(strategy: Strategy) -> Callable[[Db], Any]:
    def prepare(db: Db) -> Any:
        node = Nodes(db).create(None, "page", "basic-page", "P", ADA)["_id"]
        Comments(db, strategy).post(node, ADA, "first")
        return node

    return prepare


def _discuss(db: Db, node: Any) -> None:
    Comments(db).post(node, ADA, "second", key="k", also=sign("me"))


def _comments_of(db: Db) -> int:
    (node,) = db["content.nodes"].find({})
    return int(node["metadata"]["num_comments"])


def _publish(db: Db, node: Any) -> None:
    Nodes(db).publish(node, also=sign("me"))


def _published_if_signed(db: Db, node: Any) -> None:
    assert (signed_by(db) == "me") == (Nodes(db).by_id(node)["metadata"]["published"] is not None)


CASES = [
    Case("Carts.checkout also", "commerce", _with_note(shop.shop), _check_out, _sold_if_signed, age=shop.age),
    Case(
        "Orders.place also",
        "commerce",
        _with_note(shop.shop),
        _place,
        _once(_place, lambda db: db["commerce.orders"].count_documents({}), 0),
    ),
    Case("World.move also", "game", _with_note(_rooms), _walk, _moved_if_signed),
    Case("Network.join also", "social", _with_note(_people), _join, _joined_if_signed, age=_let_tasks_be_due),
    Case(
        "Network.post also",
        "social",
        _with_note(_people),
        _post,
        _once(_post, lambda db: db["social.posts"].count_documents({}), 1),
        age=_let_tasks_be_due,
    ),
    Case(
        "Network.comment also",
        "social",
        _with_note(_people),
        _comment,
        _once(_comment, lambda db: db["social.comments"].count_documents({}), 0),
        age=_let_tasks_be_due,
    ),
    *(
        Case(
            f"Comments.post also, {strategy}",
            "content",
            _with_note(_talk(strategy)),
            _discuss,
            _once(_discuss, _comments_of, 1),
        )
        for strategy in ("separate", "embedded")
    ),
    Case("Nodes.publish also", "content", _with_note(_talk("separate")), _publish, _published_if_signed),
]
