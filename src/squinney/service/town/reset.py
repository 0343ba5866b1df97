"""Removes the demo data, so that it can be loaded again."""

from __future__ import annotations

from collections.abc import Iterator

from squinney.errors import Conflict
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns import queue
from squinney.service.town import bank
from squinney.service.town.adverts import CAMPAIGNS
from squinney.service.town.orders import account_of
from squinney.service.town.parts import MARKS, is_demo
from squinney.service.town.people import people
from squinney.service.town.products import products
from squinney.system import Assembled
from squinney.transactions import KEYS

RESET = "reset"
# What people configured, or what signs their links, and what other processes hold.
KEPT = {"ads.keys", "analytics.retention", "ledger.protocol"}
OF_DEMO = "^demo-"


def reset_town(systems: Assembled, *, everything: bool = False) -> None:
    """Remove the demo data of a database, to be loaded again. Logins, API keys and settings stay.

    Without `everything` it refuses if people have added something, because that depends on what would be removed.

    Atomic: each collection by itself, after a mark that a reset has begun.
    After a crash: the next call, or the next load, removes the rest first.
    Raises: `Conflict`.
    """
    db = pinned(systems.db)
    # guard: what people have added is not removed with the demo data
    if not everything and not is_resetting(db) and (added := list(_added(systems))):
        # The small samples of a system alone look like what people add.
        who = "people have added" if is_demo(db) else "this database has"
        raise Conflict(f"{who} {', '.join(added)}; `squinney demo reset --all` removes these too")
    db[MARKS].update_one({"_id": RESET}, {"$set": {"begun": True}}, upsert=True)
    finish_reset(systems)


def is_resetting(db: Db) -> bool:
    """Return whether a reset was begun and not finished."""
    return db[MARKS].find_one({"_id": RESET}) is not None


def finish_reset(systems: Assembled) -> None:
    """Empty the collections of all systems but identity, and then forget what was loaded.

    Atomic: each collection by itself; the mark of the reset is removed last.
    After a crash: call it again.
    """
    db = pinned(systems.db)
    names = [
        collection.name
        for system in systems.systems
        if system.name != "identity"
        for collection in system.collections
        if collection.name not in KEPT
    ]
    # The marks come last but one: a load that finds the mark of a reset first finishes that.
    for name in (*names, *(collection.name for collection in queue.COLLECTIONS)):
        db[name].delete_many({})
    # guard: a reset forgets no keys of other systems
    # None: the record of an older version, which does not say what its operation wrote
    db[KEYS].delete_many({"collections": {"$in": [*names, None]}})
    db[MARKS].delete_many({"_id": {"$ne": RESET}})
    db[MARKS].delete_one({"_id": RESET})


def _added(systems: Assembled) -> Iterator[str]:
    """Yield what people have added, such as `3 orders`."""
    declared = {collection.name for system in systems.systems for collection in system.collections}
    for name, (noun, where) in _others().items():
        count = pinned(systems.db)[name].count_documents(where) if name in declared else 0
        if count:
            yield f"{count} {noun}{'' if count == 1 else 's'}"


def _others() -> dict[str, tuple[str, Document]]:
    """Return what to count in each collection: the documents that the demo data does not contain."""
    foreign = {"$not": {"$regex": OF_DEMO}}
    accounts = [account_of(name) for name in (*people(), *bank.BUSINESSES)]
    return {
        "commerce.products": ("product", {"_id": {"$nin": [product.sku for product in products()]}}),
        "commerce.orders": ("order", {"customer": foreign}),
        "ledger.accounts": ("account", {"_id": {"$nin": accounts}}),
        "content.nodes": ("page", {"metadata.author._id": foreign, "metadata.kept_for": None}),
        "content.comments": ("comment", {"author._id": foreign}),
        "ads.campaigns": ("campaign", {"_id": {"$nin": [campaign[1] for campaign in CAMPAIGNS]}}),
        "social.users": ("member", {"_id": foreign}),
        "game.characters": ("character", {"owner": {"$nin": [None, ""]}}),
    }
