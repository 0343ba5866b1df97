"""Move between rooms, and talk to the characters in a room."""

from __future__ import annotations

from squinney.game import rules
from squinney.game.actions.draft import Draft
from squinney.game.documents import MAX_SEEN, Character, Event, Location
from squinney.game.errors import NoExit, UnknownLocation


def move(draft: Draft, character: str, direction: str) -> Event:
    """Plan how a character leaves a room and arrives in another."""
    actor = draft.character(character)
    here = draft.records.room(actor["location"]["id"])
    there = _behind_exit(draft, here, direction)
    # guard: a move is refused if the exit has changed since it was read
    draft.room(here["_id"]).guard = {f"exits.{direction}": there["_id"]}
    if here["_id"] != there["_id"]:
        # guard: a character who moves is removed from the old room
        draft.room(here["_id"]).unlist_person(actor)
        draft.room(there["_id"]).list_person(actor)
    _take_along_copy(draft, actor, there)
    draft.add_event("left", actor, f"{actor['name']} leaves {rules.direction_name(direction)}")
    return draft.add_event("arrived", actor, f"{actor['name']} arrives", location_id=there["_id"])


def _behind_exit(draft: Draft, here: Location, direction: str) -> Location:
    target = here["exits"].get(direction)
    if target is None:
        raise NoExit(f"no way leads {rules.direction_name(direction)} from here", direction=direction)
    try:
        return draft.records.room(target)
    except UnknownLocation:
        raise NoExit(f"the way {rules.direction_name(direction)} leads nowhere", direction=direction) from None


def _take_along_copy(draft: Draft, actor: Character, there: Location) -> None:
    """Give the character a copy of the new room, and put the room on the character's map."""
    arrived = draft.room(there["_id"]).applied_to(there)
    draft.add_operators(actor, set={"location": {**rules.copy_of(arrived), "version": there["version"] + 1}})
    if there["_id"] not in actor.get("seen", []):
        draft.add_operators(actor, push={"seen": {"$each": [there["_id"]], "$slice": -MAX_SEEN}})


def say(draft: Draft, character: str, text: str) -> Event:
    """Plan what everybody in the room hears."""
    return draft.add_event("said", draft.character(character), text)
