"""Move between rooms, and talk to the characters in a room."""

from __future__ import annotations

from squinney import checks
from squinney.game import rules
from squinney.game.actions.action import Action
from squinney.game.actions.draft import Draft
from squinney.game.documents import MOST_SEEN, Event
from squinney.game.errors import NoExit, UnknownLocation
from squinney.mongo.connect import operation
from squinney.transactions import Key

LONGEST_WORDS = 500


class Walking(Action):
    """The actions of `World` that move a character and say something."""

    @operation()
    def move(self, character: str, direction: str, *, key: str | Key | None = None) -> Event:
        """Move a character through an exit of the room.

        Atomic: the character, the old room, the new room and both events, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `NoExit`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.field_name(direction, "direction", most=20)
        arguments = {"character": character, "direction": direction}
        return self._act("move", lambda draft: _moved(draft, character, direction), key, arguments)

    @operation()
    def say(self, character: str, text: str, *, key: str | Key | None = None) -> Event:
        """Say something to everybody in the room.

        Atomic: the event and the speaker, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.text(text, "text", least=1, most=LONGEST_WORDS)

        def fill(draft: Draft) -> Event:
            actor = draft.character(character)
            return draft.add_event("said", actor, text)

        return self._act("say", fill, key, {"character": character, "text": text})


def _moved(draft: Draft, character_id: str, direction: str) -> Event:
    actor = draft.character(character_id)
    here = draft.records.room(actor["location"]["id"])
    target = here["exits"].get(direction)
    if target is None:
        raise NoExit(f"no way leads {rules.direction_name(direction)} from here", direction=direction)
    try:
        there = draft.records.room(target)
    except UnknownLocation:
        raise NoExit(f"the way {rules.direction_name(direction)} leads nowhere", direction=direction) from None
    draft.room(here["_id"]).guard = {f"exits.{direction}": target}
    if here["_id"] != target:
        draft.room(here["_id"]).unlist_person(actor)
        draft.room(target).list_person(actor)
    arrived = draft.room(target).applied_to(there)
    draft.add_operators(actor, set={"location": {**rules.copy_of(arrived), "version": there["version"] + 1}})
    if target not in actor.get("seen", []):
        draft.add_operators(actor, push={"seen": {"$each": [target], "$slice": -MOST_SEEN}})
    draft.add_event("left", actor, f"{actor['name']} leaves {rules.direction_name(direction)}")
    return draft.add_event("arrived", actor, f"{actor['name']} arrives", location_id=target)
