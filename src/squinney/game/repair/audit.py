"""What can be wrong in a world, found and mended. Holders say where things are; lists and counts follow from them.

What is plainly right is found by the hundred (`quick_check`). Each other document is read with all that it rests on,
and once more at the end: where anything of it changes meanwhile, or a run has it in hand, it is looked at again. So
beside players who act, nothing is taken for wrong that is only under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from squinney.game import queries, rules
from squinney.game.documents import CHARACTERS, DEEPEST, ITEMS, LOCATIONS, MOST_LISTED, NAMES
from squinney.game.records import Records
from squinney.game.repair.quick_check import HOLDERS, WANTED, fitting, shape_of
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import MALFORMED, Check, Problem, malformed, mend, problems, raise_if_away
from squinney.mongo.schema import Db, Document
from squinney.transactions import AT_REST, Transactions, drop_orphans, find_orphans, find_stuck, visible

MARKED_COLLECTIONS = [CHARACTERS, ITEMS, LOCATIONS, NAMES, "game.events"]
LOOKS = 5
AT_ONCE = 200
VOID = {"kind": "void", "id": None}

Finding = Document
Look = Callable[[Db, Document], Iterator[Finding]]


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; actions under way are no problem.

    Raises: `SnapshotTooOld`.
    """
    db = pinned(db)
    yield from find_stuck(db)
    for finding in _findings(db):
        if isinstance(finding, Problem):
            yield finding
        else:
            yield _KINDS[finding["code"]].problem(finding)
    yield from problems(db, CHECKS)
    # Read after the rest, or a run that ends just now would show.
    yield from find_orphans(db, MARKED_COLLECTIONS)


def repair(db: Db) -> Counter[str]:
    """Settle unfinished actions, drop orphan markers and stubs, and write lists and counts anew from the holders.

    A thing whose holder is gone, or which lies in itself, goes to the void, where nothing is lost and nobody gets it.

    Atomic: each document by itself, only where it is still as it was found.
    After a crash: run it again.
    Raises: `Unavailable`, as `find_problems` does.
    """
    db = pinned(db)
    done = Transactions(db).recover()
    done += drop_orphans(db, MARKED_COLLECTIONS)
    for finding in _findings(db):
        if not isinstance(finding, Problem):
            check = _KINDS[finding["code"]]
            done[check.counted_as or check.code] += check.mend(db, finding)
    return +(done + mend(db, CHECKS))


def _findings(db: Db) -> Iterator[Finding | Problem]:
    """What is wrong with each document. Things come first: what characters and rooms list is made of them."""
    for collection, look in ((ITEMS, _look_at_thing), (CHARACTERS, _look_at_character), (LOCATIONS, _look_at_room)):
        documents = db[collection].find(visible({}), WANTED[collection])
        while some := list(islice(documents, AT_ONCE)):
            fits = fitting(db, collection, some)
            for stored in some:
                if not fits(stored):
                    yield from _looked_at(db, collection, stored, look)


def _looked_at(db: Db, collection: str, stored: Document, look: Look) -> Iterator[Finding | Problem]:
    try:
        yield from _steady(db, collection, stored["_id"], look)
    except MALFORMED as error:
        raise_if_away(error)
        yield malformed(collection, stored, error)


def _steady(db: Db, collection: str, document_id: Any, look: Look) -> list[Finding]:
    """What is found while the document and all that was read with it stand still; nothing where they never do."""
    for _ in range(LOOKS):
        before = db[collection].find_one({"_id": document_id, **AT_REST})
        if before is None:
            return []
        try:
            found = list(look(db, before))
        except _UnderWay:
            continue
        if not found:
            return []
        after = db[collection].find_one({"_id": document_id, **AT_REST}, {"version": 1})
        if after is not None and after.get("version") == before.get("version"):
            return found
    return []


class _UnderWay(Exception):
    """A run has one of the documents in hand."""


def _rest(document: Document) -> Document:
    if document.get("txns") or document.get("txn_lock") or document.get("txn_stub"):
        raise _UnderWay
    return document


# ---- characters ----


def _look_at_character(db: Db, who: Document) -> Iterator[Finding]:
    held = [_rest(one) for one in db[ITEMS].find(queries.held_by("character", [who["_id"]]))]
    listed = {entry["id"] for entry in rules.walk(who["inventory"])}
    for one in db[ITEMS].find({"_id": {"$in": sorted(listed)}}):
        _rest(one)
    records = Records(db)
    by_id = {one["_id"]: rules.entry_of(one, records.inside(one)) for one in held}  # type: ignore[arg-type]
    order = [entry["id"] for entry in who["inventory"] if entry["id"] in by_id]
    right: Any = [by_id[one] for one in [*order, *sorted(by_id.keys() - set(order))]]
    lists = {
        "inventory": right,
        "load": sum(entry["weight"] for entry in right),
        "things": len(list(rules.walk(right))),
    }
    if shape_of(right) != shape_of(who["inventory"]) or any(who[name] != lists[name] for name in ("load", "things")):
        yield {**_named(who, "wrong-inventory"), "right": lists}
    if lost := sorted(rules.in_use(who) - set(by_id)):
        worn = {part: [one for one in who[part] if one["id"] in by_id] for part in ("armor", "weapons")}
        yield {**_named(who, "worn-not-carried"), "lost": lost, "right": worn}
    if db[LOCATIONS].find_one(queries.LOCATION(location_id=who["location"]["id"]), {"_id": 1}) is None:
        yield {**_named(who, "nowhere"), "location_id": who["location"]["id"]}
    name = db[NAMES].find_one({"_id": who["name"].casefold()})
    if name is None or _rest(name)["character_id"] != who["_id"]:
        yield {**_named(who, "unreserved-name"), "name": who["name"], "free": name is None}


def _named(document: Document, code: str) -> Finding:
    return {"_id": document["_id"], "code": code, "version": document.get("version")}


# ---- rooms ----


def _look_at_room(db: Db, room: Document) -> Iterator[Finding]:
    people = [_rest(one) for one in db[CHARACTERS].find(queries.PEOPLE(location_id=room["_id"]))]
    things = [_rest(one) for one in db[ITEMS].find(queries.THINGS(kind="location", holder_id=room["_id"]))]
    for one in db[CHARACTERS].find({"_id": {"$in": [person["id"] for person in room["players"]]}}):
        _rest(one)
    for one in db[ITEMS].find({"_id": {"$in": [entry["id"] for entry in room["inventory"]]}}):
        _rest(one)
    entries = {one["_id"]: rules.entry_of(one) for one in things}
    ids = [person["id"] for person in room["players"]]
    wrong = (
        (room["player_count"], room["thing_count"]) != (len(people), len(things))
        or len(set(ids)) < len(ids)
        or not set(ids) <= {one["_id"] for one in people}
        or shape_of(room["inventory"])
        != shape_of(entries.get(one["id"], {**one, "qty": -1}) for one in room["inventory"])
    )
    if wrong:
        right = {
            "players": [rules.person_of(one) for one in people][:MOST_LISTED],
            "player_count": len(people),
            "inventory": list(entries.values())[:MOST_LISTED],
            "thing_count": len(things),
        }
        yield {**_named(room, "wrong-room"), "right": right}


# ---- things ----


def _look_at_thing(db: Db, item: Document) -> Iterator[Finding]:
    place = item["holder"]
    kind = place["kind"]
    if kind in HOLDERS:
        found = db[HOLDERS[kind]].find_one({"_id": place["id"]})
        if found is None or (kind == "item" and found["kind"] != "container"):
            yield {**_named(item, "lost-thing"), "right": {"holder": VOID}, "where": f"{kind} {place['id']}"}
    if item["kind"] != "container":
        return
    if _is_in_itself(db, item):
        yield {**_named(item, "in-itself"), "right": {"holder": VOID}}
        return
    inside = [_rest(one) for one in db[ITEMS].find(queries.held_by("item", [item["_id"]]))]
    right = {
        "load": sum(rules.weight_of(one) for one in inside),
        "count": len(inside),
        "things": sum(rules.size_of(one) for one in inside),
    }
    if any(item.get(name, 0) != value for name, value in right.items()):
        yield {**_named(item, "wrong-container"), "right": right}


def _is_in_itself(db: Db, item: Document) -> bool:
    place = item["holder"]
    for _ in range(DEEPEST + 2):
        if place["kind"] != "item":
            return False
        if place["id"] == item["_id"]:
            return True
        found = db[ITEMS].find_one({"_id": place["id"]})
        if found is None:
            return False
        place = _rest(found)["holder"]
    return True


# ---- mending ----


def _set(collection: str, db: Db, finding: Finding) -> int:
    unchanged = {"_id": finding["_id"], "version": finding["version"], **AT_REST}
    change = {"$set": finding["right"], "$inc": {"version": 1}}
    return db[collection].update_one(unchanged, change).modified_count


def _reserve(db: Db, finding: Finding) -> int:
    name = finding["name"].casefold()
    done = db[NAMES].update_one({"_id": name}, {"$setOnInsert": {"character_id": finding["_id"]}}, upsert=True)
    return int(done.upserted_id is not None)


def _names_of_nobody(db: Db) -> Iterator[Finding]:
    names = db[NAMES].find(AT_REST)
    while some := list(islice(names, AT_ONCE)):
        ids = [name["character_id"] for name in some]
        there = {one["_id"] for one in db[CHARACTERS].find({"_id": {"$in": ids}}, {"_id": 1})}
        for name in some:
            if name["character_id"] not in there and db[NAMES].find_one({"_id": name["_id"], **AT_REST}) is not None:
                yield name


def _drop_name(db: Db, finding: Finding) -> int:
    unchanged = {"_id": finding["_id"], "character_id": finding["character_id"], **AT_REST}
    return db[NAMES].delete_one(unchanged).deleted_count


def _nothing(db: Db) -> Iterator[Finding]:
    return iter(())


def _kind(code: str, collection: str, message: str, counted_as: str = "", **more: Any) -> Check:
    if counted_as:
        more = {"repair": partial(_set, collection), **more}
    return Check(code, _nothing, message, collection=collection, counted_as=counted_as, **more)


_ALL = [
    _kind("lost-thing", ITEMS, "thing {_id} is with {where}, which is not there", "things put into the void"),
    _kind("in-itself", ITEMS, "container {_id} lies in itself", "things put into the void"),
    _kind("wrong-container", ITEMS, "container {_id} miscounts what is in it: {right}", "containers counted"),
    _kind("wrong-inventory", CHARACTERS, "character {_id} lists other things than they hold", "inventories listed"),
    _kind(
        "worn-not-carried",
        CHARACTERS,
        "character {_id} wears or wields {lost}, which they do not carry",
        "worn things taken off",
    ),
    _kind("nowhere", CHARACTERS, "character {_id} is in room {location_id}, which is not there"),
    _kind(
        "unreserved-name",
        CHARACTERS,
        "character {_id} is called {name}, which is not reserved for them",
        "names reserved",
        repair=_reserve,
        repairable=lambda finding: finding["free"],
    ),
    _kind("wrong-room", LOCATIONS, "room {_id} lists or counts others than are there", "rooms listed"),
]
_KINDS = {check.code: check for check in _ALL}

CHECKS = [
    Check(
        "name-of-nobody",
        _names_of_nobody,
        "the name {_id} is reserved for {character_id}, who is not there",
        repair=_drop_name,
        counted_as="names freed",
        collection=NAMES,
    ),
    Check(
        "gold-not-conserved",
        queries.GOLD_BALANCE,
        "there are {gold} gold, of {minted} that were minted",
        documents=lambda finding: {CHARACTERS: None},
    ),
]
