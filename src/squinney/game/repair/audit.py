"""Find and repair inconsistent data of a world. Holders are the record; lists and counts must match them.

`quick_check` first finds the documents that are certainly correct, a few hundred at a time. Every other document is
read together with all documents it depends on, and then read once more. If any of these changed meanwhile, or a run
holds one of them, the check is repeated. So an action that runs concurrently is never reported as a problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from squinney.game import queries, rules
from squinney.game.character_names import name_key, name_keys
from squinney.game.documents import CHARACTERS, ITEMS, LOCATIONS, MAX_CONTAINER_DEPTH, MAX_LISTED, NAMES
from squinney.game.entries import all_entries, entry_of, size_of, weight_of
from squinney.game.records import Records
from squinney.game.repair.quick_check import HOLDERS, READ_FIELDS, compared_fields, quick_check
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import MALFORMED, Check, Problem, malformed, problems, raise_if_away, repair_problems
from squinney.mongo.schema import Db, Document

MAX_TRIES = 5
AT_ONCE = 200
VOID = {"kind": "void", "id": None}

Finding = Document
CheckOne = Callable[[Db, Document], Iterator[Finding]]


def find_problems(db: Db) -> Iterator[Problem]:
    """Yield every violation of an invariant; actions that are running are not reported.

    Raises: `SnapshotTooOld`.
    """
    db = pinned(db)
    for finding in _findings(db):
        if isinstance(finding, Problem):
            yield finding
        else:
            yield _BY_CODE[finding["code"]].problem(finding)
    yield from problems(db, CHECKS)


@operation(None)
def repair(db: Db) -> Counter[str]:
    """Rebuild lists and counts from the holders.

    A thing whose holder does not exist, or which is inside itself, is moved to the void: it is kept, but no character
    can reach it.

    Atomic: each document, only if it has not changed since it was checked.
    After a crash: run it again.
    Raises: `Unavailable`, as `find_problems` does.
    """
    db = pinned(db)
    done: Counter[str] = Counter()
    for finding in _findings(db):
        if not isinstance(finding, Problem):
            check = _BY_CODE[finding["code"]]
            done[check.counted_as or check.code] += check.repair_finding(db, finding)
    return +(done + repair_problems(db, CHECKS))


def _findings(db: Db) -> Iterator[Finding | Problem]:
    """Yield what is wrong with each document. Things are first, because the lists of characters and rooms depend on
    them."""
    for collection, check in ((ITEMS, _check_thing), (CHARACTERS, _check_character), (LOCATIONS, _check_room)):
        documents = db[collection].find({}, READ_FIELDS[collection])
        while batch := list(islice(documents, AT_ONCE)):
            is_correct = quick_check(db, collection, batch)
            for stored in batch:
                if not is_correct(stored):
                    yield from _checked(db, collection, stored, check)


def _checked(db: Db, collection: str, stored: Document, check: CheckOne) -> Iterator[Finding | Problem]:
    try:
        yield from _checked_unchanged(db, collection, stored["_id"], check)
    except MALFORMED as error:
        # guard: a slow server is not reported as a malformed document
        raise_if_away(error)
        yield malformed(collection, stored, error)


def _checked_unchanged(db: Db, collection: str, document_id: Any, check: CheckOne) -> list[Finding]:
    """Check a document until nothing changes during the check; return nothing if that never happens."""
    for _ in range(MAX_TRIES):
        before = db[collection].find_one({"_id": document_id})
        if before is None:
            return []
        findings = list(check(db, before))
        if not findings:
            return []
        after = db[collection].find_one({"_id": document_id}, {"version": 1})
        if after is not None and after.get("version") == before.get("version"):
            return findings
    return []


# ---- characters ----


def _check_character(db: Db, character: Document) -> Iterator[Finding]:
    held = list(db[ITEMS].find(queries.held_by("character", [character["_id"]])))
    records = Records(db)
    by_id = {thing["_id"]: entry_of(thing, records.contents_of(thing)) for thing in held}  # type: ignore[arg-type]
    order = [entry["id"] for entry in character["inventory"] if entry["id"] in by_id]
    entries: Any = [by_id[item_id] for item_id in [*order, *sorted(by_id.keys() - set(order))]]
    correct = {
        "inventory": entries,
        "load": sum(entry["weight"] for entry in entries),
        "things": len(list(all_entries(entries))),
    }
    if compared_fields(entries) != compared_fields(character["inventory"]) or any(
        character[name] != correct[name] for name in ("load", "things")
    ):
        yield {**_finding(character, "wrong-inventory"), "correct": correct}
    if lost := sorted(rules.in_use(character) - set(by_id)):
        used = {part: [piece for piece in character[part] if piece["id"] in by_id] for part in ("armor", "weapons")}
        yield {**_finding(character, "worn-not-carried"), "lost": lost, "correct": used}
    location_id = character["location"]["id"]
    if queries.LOCATION.find_one(db, location_id=location_id, projection={"_id": 1}) is None:
        yield {**_finding(character, "nowhere"), "location_id": location_id}
    names = list(db[NAMES].find({"_id": {"$in": name_keys(character["name"])}}))
    if character["_id"] not in {name["character_id"] for name in names}:
        yield {**_finding(character, "unreserved-name"), "name": character["name"], "free": not names}


def _finding(document: Document, code: str) -> Finding:
    return {"_id": document["_id"], "code": code, "version": document.get("version")}


# ---- rooms ----


def _check_room(db: Db, room: Document) -> Iterator[Finding]:
    people = list(queries.PEOPLE.find(db, location_id=room["_id"]))
    things = list(queries.THINGS.find(db, kind="location", holder_id=room["_id"]))
    entries = {thing["_id"]: entry_of(thing) for thing in things}
    ids = [person["id"] for person in room["players"]]
    wrong = (
        (room["player_count"], room["thing_count"]) != (len(people), len(things))
        or len(set(ids)) < len(ids)
        or not set(ids) <= {person["_id"] for person in people}
        or compared_fields(room["inventory"])
        != compared_fields(entries.get(entry["id"], {**entry, "qty": -1}) for entry in room["inventory"])
    )
    if wrong:
        correct = {
            "players": [rules.person_of(person) for person in people][:MAX_LISTED],
            "player_count": len(people),
            "inventory": list(entries.values())[:MAX_LISTED],
            "thing_count": len(things),
        }
        yield {**_finding(room, "wrong-room"), "correct": correct}


# ---- things ----


def _check_thing(db: Db, item: Document) -> Iterator[Finding]:
    kind, holder_id = item["holder"]["kind"], item["holder"]["id"]
    if kind in HOLDERS:
        holder = db[HOLDERS[kind]].find_one({"_id": holder_id})
        if holder is None or (kind == "item" and holder["kind"] != "container"):
            yield {**_finding(item, "lost-thing"), "correct": {"holder": VOID}, "where": f"{kind} {holder_id}"}
    if item["kind"] != "container":
        return
    if _is_in_itself(db, item):
        yield {**_finding(item, "in-itself"), "correct": {"holder": VOID}}
        return
    contents = list(db[ITEMS].find(queries.held_by("item", [item["_id"]])))
    correct = {
        "load": sum(weight_of(content) for content in contents),
        "count": len(contents),
        "things": sum(size_of(content) for content in contents),
    }
    if any(item.get(name, 0) != value for name, value in correct.items()):
        yield {**_finding(item, "wrong-container"), "correct": correct}


def _is_in_itself(db: Db, item: Document) -> bool:
    holder = item["holder"]
    for _ in range(MAX_CONTAINER_DEPTH + 2):
        if holder["kind"] != "item":
            return False
        if holder["id"] == item["_id"]:
            return True
        container = db[ITEMS].find_one({"_id": holder["id"]})
        if container is None:
            return False
        holder = container["holder"]
    return True


# ---- repair ----


def _set_correct(collection: str, db: Db, finding: Finding) -> int:
    unchanged = {"_id": finding["_id"], "version": finding["version"]}
    change = {"$set": finding["correct"], "$inc": {"version": 1}}
    return db[collection].update_one(unchanged, change).modified_count


def _reserve_name(db: Db, finding: Finding) -> int:
    name = name_key(finding["name"])
    done = db[NAMES].update_one({"_id": name}, {"$setOnInsert": {"character_id": finding["_id"]}}, upsert=True)
    return int(done.upserted_id is not None)


def _names_of_nobody(db: Db) -> Iterator[Finding]:
    names = db[NAMES].find()
    while batch := list(islice(names, AT_ONCE)):
        ids = [name["character_id"] for name in batch]
        existing = {character["_id"] for character in db[CHARACTERS].find({"_id": {"$in": ids}}, {"_id": 1})}
        for name in batch:
            if name["character_id"] in existing:
                continue
            if db[NAMES].find_one({"_id": name["_id"]}) is not None:
                yield name


def _drop_name(db: Db, finding: Finding) -> int:
    unchanged = {"_id": finding["_id"], "character_id": finding["character_id"]}
    return db[NAMES].delete_one(unchanged).deleted_count


def _check(code: str, collection: str, message: str, counted_as: str = "", **more: Any) -> Check:
    """Declare a check whose findings `_findings` yields, so that it has no query."""
    if counted_as:
        more = {"repair": partial(_set_correct, collection), **more}
    return Check(code, lambda db: (), message, collection=collection, counted_as=counted_as, **more)


_DOCUMENT_CHECKS = [
    _check("lost-thing", ITEMS, "thing {_id} is held by {where}, which does not exist", "things moved to the void"),
    _check("in-itself", ITEMS, "container {_id} is inside itself", "things moved to the void"),
    _check("wrong-container", ITEMS, "container {_id} has wrong totals; correct: {correct}", "containers recounted"),
    _check(
        "wrong-inventory",
        CHARACTERS,
        "the inventory of character {_id} does not match the things that the character holds",
        "inventories rebuilt",
    ),
    _check(
        "worn-not-carried",
        CHARACTERS,
        "character {_id} wears or wields {lost}, but does not carry it",
        "worn things taken off",
    ),
    _check("nowhere", CHARACTERS, "character {_id} is in room {location_id}, which does not exist"),
    _check(
        "unreserved-name",
        CHARACTERS,
        "character {_id} is called {name}, but that name is not reserved for this character",
        "names reserved",
        repair=_reserve_name,
        repairable=lambda finding: finding["free"],
    ),
    _check("wrong-room", LOCATIONS, "the lists or counts of room {_id} do not match what is there", "rooms rebuilt"),
]
_BY_CODE = {check.code: check for check in _DOCUMENT_CHECKS}

CHECKS = [
    Check(
        "name-of-nobody",
        _names_of_nobody,
        "the name {_id} is reserved for character {character_id}, who does not exist",
        repair=_drop_name,
        counted_as="names freed",
        collection=NAMES,
    ),
    Check(
        "gold-not-conserved",
        queries.GOLD_BALANCE,
        "the characters have {gold} gold in all, but {minted} were minted",
        documents=lambda finding: {CHARACTERS: None},
    ),
]
