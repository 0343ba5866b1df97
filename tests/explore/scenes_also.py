"""Operations with a further step of the caller's, of which only one may sign a note."""

from __future__ import annotations

from typing import Any

from squinney.content import Comments, Nodes
from squinney.mongo.schema import Db
from squinney.social import Network
from tests.crash import shop
from tests.explore.scene import Act, Scene
from tests.explore.scenes_social import NOW
from tests.notes import NOTES, put_note, sign, signed_by

ADA: Any = {"_id": "ada", "name": "Ada"}


def _sign_without(db: Db, state: Any) -> None:
    db[NOTES].update_one({"_id": "n", "by": None}, {"$set": {"by": "alone"}})


# ---- checkout ----


def _two_carts(db: Db) -> dict[str, str]:
    put_note(db)
    first = shop.shop(db)
    second = shop.carts(db).new()["_id"]
    shop.carts(db).add_item(second, "film", 1)
    return {"first": first, "second": second}


def _check_out(which: str) -> Act:
    def act(db: Db, state: Any) -> None:
        shop.carts(db).checkout(state[which], key="k", also=sign(which))

    return act


def _whoever_signed_has_an_order(db: Db, state: Any) -> None:
    shop.levels(db)
    shop.paired(db)
    placed = {order["_id"] for order in db["commerce.orders"].find({})}
    assert placed == ({state[signed_by(db)]} if signed_by(db) in state else set())


SHOP: dict[str, Act] = {"first": _check_out("first"), "second": _check_out("second"), "alone": _sign_without}

# ---- social ----


def _people(db: Db) -> str:
    put_note(db)
    for name in ("ann", "bob"):
        Network(db).join(name, user=name)
    return Network(db, clock=lambda: NOW).post("ann", "status", {"text": "hello"}, ["*public*"])["id"]


def _post(db: Db, state: Any) -> None:
    Network(db, clock=lambda: NOW).post("ann", "status", {"text": "more"}, ["*public*"], key="k", also=sign("post"))


def _comment(db: Db, post: str) -> None:
    Network(db, clock=lambda: NOW).comment("bob", post, "well", also=sign("comment"))


def _delete(db: Db, post: str) -> None:
    Network(db, clock=lambda: NOW).delete_post("ann", post, also=sign("delete"))


def _one_has_happened(db: Db, state: Any) -> None:
    by = signed_by(db)
    assert db["social.comments"].count_documents({}) == (by == "comment")
    assert db["social.posts"].count_documents({}) == 1 + (by == "post") - (by == "delete")


SOCIAL: dict[str, Act] = {"post": _post, "comment": _comment, "delete post": _delete, "alone": _sign_without}

# ---- content ----


def _talk(db: Db) -> Any:
    put_note(db)
    made = [Nodes(db).create(None, slug, "basic-page", "P", ADA)["_id"] for slug in ("separate", "embedded")]
    Comments(db, "separate").post(made[0], ADA, "first")
    Comments(db, "embedded").post(made[1], ADA, "first")
    return made


def _discuss(number: int, key: str | None = None) -> Act:
    def act(db: Db, nodes: Any) -> None:
        Comments(db).post(nodes[number], ADA, "second", key=key, also=sign(f"comment {number}"))

    return act


def _signed_for_one(db: Db, nodes: Any) -> None:
    found = [Nodes(db).by_id(node)["metadata"] for node in nodes]
    by = signed_by(db)
    assert [node["num_comments"] for node in found] == [1 + (by == "comment 0"), 1 + (by == "comment 1")]
    assert (found[0]["published"] is not None) == (by == "publish")


CONTENT: dict[str, Act] = {
    "post": _discuss(0),
    "post by key": _discuss(0, "k"),
    "post embedded": _discuss(1, "k"),
    "publish": lambda db, nodes: Nodes(db).publish(nodes[0], also=sign("publish")),
}

SCENES = [
    Scene(
        "also, shop",
        "commerce",
        _two_carts,
        SHOP,
        composed=["first", "second"],
        check=_whoever_signed_has_an_order,
        age=shop.age,
    ),
    Scene("also, social", "social", _people, SOCIAL, check=_one_has_happened),
    Scene("also, content", "content", _talk, CONTENT, check=_signed_for_one),
]
