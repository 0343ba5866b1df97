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
from squinney.game.records import CachedRecords, DocumentCache, Records
from squinney.transactions import Key, Plan, Transactions

FillDraft = Callable[[Draft], Event]


class Action:
    """The base of the classes with the characters' actions. Each action returns the event that the room receives.

    Each action takes a `key`: an action sent twice with one key happens once.
    """

    _records: Records
    _cache: DocumentCache
    _transactions: Transactions
    _clock: Clock
    _acts_per_minute: int

    def _act(self, kind: str, fill: FillDraft, key: str | Key | None, arguments: Mapping[str, Any]) -> Event:
        """Run an action. It is planned from the cache first, and from the database if that plan was stale."""
        drafts: list[Draft] = []

        def build() -> Plan:
            draft, plan = self._planned(fill, use_cache=not drafts)
            drafts.append(draft)
            return plan

        outcome = self._transactions.run(f"game {kind}", build, key=key, arguments=arguments)
        # A repeat with the same key returns the first run's event: then the draft was not committed.
        if drafts and any(outcome.result is event for event in drafts[-1].events):
            drafts[-1].update_cache(self._cache)
        return cast(Event, outcome.result)

    def _planned(self, fill: FillDraft, *, use_cache: bool) -> tuple[Draft, Plan]:
        records = CachedRecords(self._records, self._cache, use_cache=use_cache)
        draft = Draft(self._clock(), records)
        try:
            event = fill(draft)
            if self._acts_per_minute:
                draft.count_acts(self._acts_per_minute)
            return draft, Plan(draft.steps(), result=event)
        except SquinneyError:
            if not records.has_used_cache:
                raise
            return self._planned(fill, use_cache=False)


def take_from_hands(draft: Draft, character_id: str, item_id: str, qty: int | None) -> tuple[Character, Transfer]:
    """Return a character, and a transfer that takes a carried thing from the character's hands."""
    actor = draft.character(character_id)
    thing = draft.records.item(item_id)
    rules.require_carried(actor, thing)
    rules.require_not_in_use(actor, thing)
    transfer = Transfer(draft, thing, qty)
    transfer.from_character(actor)
    return actor, transfer


def check_qty(qty: int | None) -> None:
    """Raises: `Invalid`."""
    if qty is not None:
        checks.integer(qty, "qty", least=1, most=MOST_QTY)


def check_different(value: str, field: str, *, other: str, other_field: str) -> None:
    """Raises: `Invalid` if both ids are the same."""
    if value == other:
        raise Invalid(f"{field} must be different from {other_field}", field=field)
