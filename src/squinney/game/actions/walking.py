"""Walking, and talking to those who are there."""

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
    """Walking, and talking to those who are there."""

    @operation()
    def move(self, character: str, direction: str, *, key: str | Key | None = None) -> Event:
        """Go through an exit.

        Atomic: the character, the old room, the new room and both events, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `NoExit`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.field_name(direction, "direction", most=20)
        arguments = {"character": character, "direction": direction}
        return self._act("move", lambda draft: _moved(draft, character, direction), key, arguments)

    @operation()
    def say(self, character: str, text: str, *, key: str | Key | None = None) -> Event:
        """Say something to those in the room.

        Atomic: the event and the speaker, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.text(text, "text", least=1, most=LONGEST_WORDS)

        def plan(draft: Draft) -> Event:
            who = draft.character(draft.records.character(character))
            return draft.tell("said", who, text)

        return self._act("say", plan, key, {"character": character, "text": text})


def _moved(draft: Draft, character_id: str, direction: str) -> Event:
    who = draft.character(draft.records.character(character_id))
    here = draft.records.room(who["location"]["id"])
    target = here["exits"].get(direction)
    if target is None:
        raise NoExit(f"no way leads {rules.way(direction)} from here", direction=direction)
    try:
        there = draft.records.room(target)
    except UnknownLocation:
        raise NoExit(f"the way {rules.way(direction)} leads nowhere", direction=direction) from None
    draft.room(here["_id"]).guard = {f"exits.{direction}": target}
    if here["_id"] != target:
        draft.room(here["_id"]).unlist_person(who)
        draft.room(target).list_person(who)
    arrived = draft.room(target).applied_to(there)
    draft.set_own(who, set={"location": {**rules.copy_of(arrived), "version": there["version"] + 1}})
    if target not in who.get("seen", []):
        draft.set_own(who, push={"seen": {"$each": [target], "$slice": -MOST_SEEN}})
    draft.tell("left", who, f"{who['name']} leaves {rules.way(direction)}")
    return draft.tell("arrived", who, f"{who['name']} arrives", location_id=target)
