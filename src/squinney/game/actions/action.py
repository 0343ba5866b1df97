"""How an action is planned and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from squinney import checks
from squinney.clock import Clock
from squinney.errors import Invalid, SquinneyError
from squinney.game import rules
from squinney.game.actions.draft import Draft
from squinney.game.actions.transfer import Transfer
from squinney.game.documents import MOST_QTY, Character, Event
from squinney.game.records import Memory, Records, Remembering
from squinney.transactions import Key, Plan, Transactions

Planned = Callable[[Draft], Event]


class Action:
    """The base of what characters do. Each action returns the event that those in the room are told.

    Each takes a `key`: an action sent twice with one key happens once.
    """

    _records: Records
    _memory: Memory
    _transactions: Transactions
    _clock: Clock
    _acts_per_minute: int

    def _act(self, kind: str, plan: Planned, key: str | Key | None, arguments: Mapping[str, Any]) -> Event:
        """Plan by what is remembered, and again by what is read where the plan is refused for that."""
        drafts: list[Draft] = []

        def build() -> Plan:
            draft, made = self._drafted(plan, trusting=not drafts)
            drafts.append(draft)
            return made

        outcome = self._transactions.run(f"game {kind}", build, key=key, arguments=arguments)
        # A repeat with a key gets the first one's event: then nothing of the draft happened.
        if drafts and any(outcome.result is event for event in drafts[-1].events):
            drafts[-1].remember(self._memory)
        return cast(Event, outcome.result)

    def _drafted(self, plan: Planned, *, trusting: bool) -> tuple[Draft, Plan]:
        records = Remembering(self._records, self._memory, trusting=trusting)
        draft = Draft(self._clock(), records)
        try:
            event = plan(draft)
            if self._acts_per_minute:
                draft.count_acts(self._acts_per_minute)
            return draft, Plan(draft.steps(), result=event)
        except SquinneyError:
            if not records.has_trusted:
                raise
            return self._drafted(plan, trusting=False)


def from_hands(draft: Draft, character_id: str, item_id: str, qty: int | None) -> tuple[Character, Transfer]:
    """A character, and what they carry on its way out of their hands."""
    who = draft.character(draft.records.character(character_id))
    thing = draft.records.item(item_id)
    rules.require_carried(who, thing)
    rules.require_not_in_use(who, thing)
    transfer = Transfer(draft, thing, qty)
    transfer.from_character(who)
    return who, transfer


def check_qty(qty: int | None) -> None:
    """Raises: `Invalid`."""
    if qty is not None:
        checks.integer(qty, "qty", least=1, most=MOST_QTY)


def check_two(one: str, other: str, field: str) -> None:
    """Raises: `Invalid` where both are the same."""
    if one == other:
        raise Invalid(f"{field} must be another one", field=field)
