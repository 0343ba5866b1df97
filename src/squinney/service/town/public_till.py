"""The till of the demo's shop, which everybody may read."""

from __future__ import annotations

from collections.abc import Callable

from squinney.service.links.order_payments import TILL
from squinney.service.town.parts import is_demo
from squinney.system import Assembled


def public_account(systems: Assembled) -> Callable[[], str | None] | None:
    """Return a function that returns the id of the till of the demo, or None; None unless there is a ledger."""
    ledger = systems.services.get("ledger")
    if ledger is None:
        return None

    def find() -> str | None:
        # guard: the till of a business is shown of the demo data only
        if not is_demo(systems.db):
            return None
        accounts = ledger["accounts"].owned_by(TILL, limit=1).items
        return accounts[0]["_id"] if accounts else None

    return find
