"""Plan how new things and characters are put into the world."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from squinney import checks
from squinney.errors import Conflict, LimitReached, SquinneyError
from squinney.game import queries, rules
from squinney.game.actions.draft import Draft
from squinney.game.actions.item_transfer import ItemTransfer
from squinney.game.character_names import reserved_keys
from squinney.game.documents import CHARACTERS, NAMES, Item
from squinney.game.errors import NameTaken
from squinney.game.records import Records
from squinney.mongo.schema import Db
from squinney.transactions import Plan, Stale, Step


def plan_item(records: Records, item: Mapping[str, Any], where: Mapping[str, str], at: datetime) -> Plan:
    """Plan a new thing in the place named by `where`: a location, a character, a container, or none of them."""
    draft = Draft(at, records)
    created = cast(Item, {**item})
    draft.insert_item(created)
    transfer = ItemTransfer(draft, created, None, is_new=True)
    if "location" in where:
        transfer.to_room(checks.identifier(where["location"], "location"))
    elif "character" in where:
        transfer.to_character(draft.character(where["character"]), may_merge=False)
    elif "container" in where:
        container = records.item(where["container"])
        around, outermost = records.containers_around(container)
        transfer.to_container([container, *around], outermost)
    return Plan(draft.steps(), result=created)


def plan_character(
    db: Db, records: Records, character: Mapping[str, Any], location: str, at: datetime, *, max_owned: int | None
) -> Plan:
    """Plan a new character in a room; `max_owned` limits the characters of the owner."""
    room = records.room(location)
    created = {**character, "seen": [location], "location": rules.copy_of(room)}
    if created["owner"] is None or max_owned is None:
        return Plan(_steps(records, created, at), result=created)
    # guard: concurrent calls create no more characters than an owner may have
    created["_id"] = _next_id(db, created["owner"], max_owned)
    return Plan(_steps(records, created, at, id_taken=Stale), result=created)


def _steps(
    records: Records, character: dict[str, Any], at: datetime, *, id_taken: type[SquinneyError] = Conflict
) -> list[Step]:
    draft = Draft(at, records)
    draft.room(character["location"]["id"]).list_person(character)
    draft.add_event("arrived", character, f"{character['name']} appears")
    reserved = {"character_id": character["_id"]}
    name = character["name"]
    taken = NameTaken(f"another character is called {name}", name=name)
    return [
        *draft.steps(),
        # guard: a name belongs to one character
        *(Step(NAMES, key, insert=reserved, refused=lambda _: taken) for key in reserved_keys(name)),
        Step(CHARACTERS, character["_id"], insert=character, refused=id_taken),
    ]


def _next_id(db: Db, owner: str, max_owned: int) -> str:
    """Derive the id of an owner's next character from its number.

    Two concurrent calls get the same id: one of them is refused as stale, and counts again.
    """
    owned = db[CHARACTERS].count_documents(queries.OWNED(owner=owner), limit=max_owned)
    if owned >= max_owned:
        raise LimitReached(f"you can have at most {max_owned} characters", limit=max_owned)
    return hashlib.sha256(f"{owner} {owned}".encode()).hexdigest()[:26]
