"""The ledger."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_rule = guards_of("squinney.ledger.rules", "tests/systems/ledger/test_accounts.py")
_account = guards_of("squinney.ledger.accounts", "tests/systems/ledger/test_accounts.py")
_repair = guards_of("squinney.ledger.repair", "tests/systems/ledger/test_repair.py")

GUARDS = [
    _rule(
        "a transfer requires a sufficient balance",
        'guard={"balance": {"$gte": amount}, "closed_at": None, "currency": currency}',
        'guard={"closed_at": None, "currency": currency}',
        "test_a_refusal_changes_nothing",
    ),
    _rule(
        "no transfer from a closed account",
        'guard={"balance": {"$gte": amount}, "closed_at": None, "currency": currency}',
        'guard={"balance": {"$gte": amount}, "currency": currency}',
        "tests/systems/ledger/test_guards.py::test_each_guard_of_a_transfer_works_on_its_own",
    ),
    _rule(
        "the source account has the currency of the transfer",
        'guard={"balance": {"$gte": amount}, "closed_at": None, "currency": currency}',
        'guard={"balance": {"$gte": amount}, "closed_at": None}',
        "tests/systems/ledger/test_guards.py::test_each_guard_of_a_transfer_works_on_its_own",
    ),
    _rule(
        "a balance cannot exceed the limit",
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None, "currency": currency}',
        'guard={"closed_at": None, "currency": currency}',
        "test_a_refusal_changes_nothing",
    ),
    _rule(
        "no transfer to a closed account",
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None, "currency": currency}',
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "currency": currency}',
        "tests/systems/ledger/test_guards.py::test_each_guard_of_a_transfer_works_on_its_own",
    ),
    _rule(
        "the destination account has the currency of the transfer",
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None, "currency": currency}',
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None}',
        "tests/systems/ledger/test_guards.py::test_each_guard_of_a_transfer_works_on_its_own",
    ),
    _account(
        "only an empty account can be closed",
        'empty = {"balance": 0, "closed_at": None, **UNLOCKED}',
        'empty = {"closed_at": None, **UNLOCKED}',
        "test_a_refusal_changes_nothing",
    ),
    _account(
        "a closed account cannot be closed again",
        'empty = {"balance": 0, "closed_at": None, **UNLOCKED}',
        'empty = {"balance": 0, **UNLOCKED}',
        "test_a_refusal_changes_nothing",
    ),
    _account(
        "an account cannot be closed during a transfer",
        'empty = {"balance": 0, "closed_at": None, **UNLOCKED}',
        'empty = {"balance": 0, "closed_at": None}',
        "tests/systems/ledger/test_guards.py::test_an_account_cannot_be_closed_during_a_transfer",
    ),
    _account(
        "source and destination must differ",
        "        if src == dst:\n",
        "        if False:\n",
        "test_a_refusal_changes_nothing",
    ),
    _account(
        "the currencies of both accounts must match",
        "        if currencies[src] != currencies[dst]:\n",
        "        if False:\n",
        "test_a_refusal_changes_nothing",
    ),
    _account(
        "an amount is an integer of at least one",
        'checks.integer(amount, "amount", least=1, most=MOST_AMOUNT)',
        "pass",
        "test_a_bad_amount_is_named",
    ),
    _repair(
        "repair does not overwrite a balance that has changed",
        '{"_id": account["_id"], "balance": account["balance"], **UNLOCKED}',
        '{"_id": account["_id"], **UNLOCKED}',
        "tests/systems/ledger/test_guards.py::test_repair_does_not_overwrite_a_changed_balance",
    ),
    _repair(
        "repair does not set a balance during a transfer",
        '{"_id": account["_id"], "balance": account["balance"], **UNLOCKED}',
        '{"_id": account["_id"], "balance": account["balance"]}',
        "tests/systems/ledger/test_guards.py::test_repair_sets_no_balance_during_a_transfer",
    ),
    _repair(
        "repair does not set a negative balance",
        'account["sum"] >= 0 and not account["doubted"]',
        'not account["doubted"]',
        "test_a_negative_opening_is_left_to_a_person",
    ),
    _repair(
        "repair does not set a balance if an entry is missing",
        'account["sum"] >= 0 and not account["doubted"]',
        'account["sum"] >= 0',
        "test_parts_are_consistent_and_cover_everything",
    ),
    _repair(
        "a part contains both entries of a transfer",
        'end = _after_transfer(found["_id"])',
        'end = found["_id"]',
        "test_parts_are_consistent_and_cover_everything",
    ),
]
