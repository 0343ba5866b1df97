"""Compares a ledger with a plain dict under random operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.plugins.shelf import Shelf
from tests.sizes import IN_FULL, heavy

from squinney import transactions
from squinney.ledger import (
    COLLECTIONS,
    AccountClosed,
    AccountNotEmpty,
    Accounts,
    CurrencyMismatch,
    InsufficientFunds,
    find_problems,
)
from squinney.transactions import KeyReused

AMOUNTS = st.integers(1, 60)


class Ledger(RuleBasedStateMachine):
    """The model: balances, currencies, closed accounts, and the arguments of each key."""

    shelf: Callable[[], Shelf]
    accounts: Bundle[str] = Bundle("accounts")

    @initialize()
    def begin(self) -> None:
        self.db = self.shelf().take([*transactions.COLLECTIONS, *COLLECTIONS])
        self.ledger = Accounts(self.db)
        self.balances: dict[str, int] = {}
        self.currencies: dict[str, str] = {}
        self.closed: set[str] = set()
        self.entries: dict[str, list[int]] = {}
        self.keys: dict[str, Any] = {}

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.shelf().put_back(self.db)

    @rule(target=accounts, currency=st.sampled_from(["EUR", "EUR", "USD"]), opening=st.integers(0, 100))
    def open(self, currency: str, opening: int) -> str:
        account_id = self.ledger.open(currency, opening)["_id"]
        self.balances[account_id] = opening
        self.currencies[account_id] = currency
        self.entries[account_id] = [opening] if opening else []
        return account_id

    def expected_refusal(self, src: str, dst: str, amount: int) -> type[Exception] | None:
        if self.currencies[src] != self.currencies[dst]:
            return CurrencyMismatch
        if src in self.closed:
            return AccountClosed
        if self.balances[src] < amount:
            return InsufficientFunds
        return AccountClosed if dst in self.closed else None

    def move(self, src: str, dst: str, amount: int) -> None:
        self.balances[src] -= amount
        self.balances[dst] += amount
        self.entries[src].append(-amount)
        self.entries[dst].append(amount)

    @rule(src=accounts, dst=accounts, amount=AMOUNTS, key=st.sampled_from([None, None, "a", "b", "c"]))
    def transfer(self, src: str, dst: str, amount: int, key: str | None) -> None:
        if src == dst:
            return
        known = self.keys.get(key) if key else None
        refusal = KeyReused if known and known != (src, dst, amount) else None
        if not known or self.currencies[src] != self.currencies[dst]:
            refusal = self.expected_refusal(src, dst, amount)
        if refusal:
            with pytest.raises(refusal):
                self.ledger.transfer(src, dst, amount, key=key)
            return
        self.ledger.transfer(src, dst, amount, key=key)
        if not known:
            self.move(src, dst, amount)
        if key:
            self.keys[key] = (src, dst, amount)

    @rule(account_id=accounts)
    def close(self, account_id: str) -> None:
        if account_id in self.closed:
            refusal: Any = AccountClosed
        else:
            refusal = AccountNotEmpty if self.balances[account_id] else None
        if refusal:
            with pytest.raises(refusal):
                self.ledger.close(account_id)
        else:
            self.ledger.close(account_id)
            self.closed.add(account_id)

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "db"):
            return
        reader = self.ledger
        stored = {account["_id"]: account["balance"] for account in reader.all(limit=200).items}
        assert stored == self.balances
        assert list(find_problems(self.db)) == []
        for account_id, amounts in self.entries.items():
            lines = [entry["amount"] for entry in reader.statement(account_id, limit=200).items]
            assert sorted(lines) == sorted(amounts)


@heavy
@pytest.mark.timeout(600)
def test_the_ledger_agrees_with_a_dict(shelf: Shelf) -> None:
    class OnServer(Ledger):
        """The machine with its databases; `shelf` is a function, because Hypothesis inspects every attribute."""

        shelf = staticmethod(lambda: shelf)  # type: ignore[assignment]

    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    most = 150 if IN_FULL else 8
    limits = settings(max_examples=most, stateful_step_count=25, deadline=None, suppress_health_check=slow)
    run_state_machine_as_test(OnServer, settings=limits)
