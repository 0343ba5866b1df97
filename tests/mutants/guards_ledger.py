"""The ledger."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_rule = guards_of("squinney.ledger.rules", "tests/systems/ledger/test_accounts.py")
_account = guards_of("squinney.ledger.accounts", "tests/systems/ledger/test_accounts.py")
_repair = guards_of("squinney.ledger.repair", "tests/systems/ledger/test_repair.py")

GUARDS = [
    _rule(
        "nobody spends what is not there",
        'guard={"balance": {"$gte": amount}, "closed_at": None, "currency": currency}',
        'guard={"closed_at": None, "currency": currency}',
        "test_a_refusal_changes_nothing",
    ),
    _rule(
        "nothing leaves a closed account",
        'guard={"balance": {"$gte": amount}, "closed_at": None, "currency": currency}',
        'guard={"balance": {"$gte": amount}, "currency": currency}',
        "tests/systems/ledger/test_guards.py::test_the_guards_of_a_transfer_stand_by_themselves",
    ),
    _rule(
        "money leaves in its currency",
        'guard={"balance": {"$gte": amount}, "closed_at": None, "currency": currency}',
        'guard={"balance": {"$gte": amount}, "closed_at": None}',
        "tests/systems/ledger/test_guards.py::test_the_guards_of_a_transfer_stand_by_themselves",
    ),
    _rule(
        "an account has a limit",
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None, "currency": currency}',
        'guard={"closed_at": None, "currency": currency}',
        "test_a_refusal_changes_nothing",
    ),
    _rule(
        "nothing enters a closed account",
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None, "currency": currency}',
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "currency": currency}',
        "tests/systems/ledger/test_guards.py::test_the_guards_of_a_transfer_stand_by_themselves",
    ),
    _rule(
        "money enters in its currency",
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None, "currency": currency}',
        'guard={"balance": {"$lte": MOST_BALANCE - amount}, "closed_at": None}',
        "tests/systems/ledger/test_guards.py::test_the_guards_of_a_transfer_stand_by_themselves",
    ),
    _account(
        "only an empty account is closed",
        'empty = {"balance": 0, "closed_at": None, **UNLOCKED}',
        'empty = {"closed_at": None, **UNLOCKED}',
        "test_a_refusal_changes_nothing",
    ),
    _account(
        "no account is closed twice",
        'empty = {"balance": 0, "closed_at": None, **UNLOCKED}',
        'empty = {"balance": 0, **UNLOCKED}',
        "test_a_refusal_changes_nothing",
    ),
    _account(
        "no account is closed under a transfer",
        'empty = {"balance": 0, "closed_at": None, **UNLOCKED}',
        'empty = {"balance": 0, "closed_at": None}',
        "tests/systems/ledger/test_guards.py::test_no_account_is_closed_while_a_transfer_is_under_way",
    ),
    _account(
        "nobody pays themselves",
        "        if src == dst:\n",
        "        if False:\n",
        "test_a_refusal_changes_nothing",
    ),
    _account(
        "currencies are not mixed",
        "        if currencies[src] != currencies[dst]:\n",
        "        if False:\n",
        "test_a_refusal_changes_nothing",
    ),
    _account(
        "an amount is a whole number from one up",
        'checks.integer(amount, "amount", least=1, most=MOST_AMOUNT)',
        "pass",
        "test_a_bad_amount_is_named",
    ),
    _repair(
        "a balance is set only where it is as it was found",
        '{"_id": account["_id"], "balance": account["balance"], **UNLOCKED}',
        '{"_id": account["_id"], **UNLOCKED}',
        "tests/systems/ledger/test_guards.py::test_repair_sets_no_balance_that_has_changed_since",
    ),
    _repair(
        "a balance is set only at rest",
        '{"_id": account["_id"], "balance": account["balance"], **UNLOCKED}',
        '{"_id": account["_id"], "balance": account["balance"]}',
        "tests/systems/ledger/test_guards.py::test_repair_sets_no_balance_while_a_transfer_is_under_way",
    ),
    _repair(
        "entries below zero are left to a person",
        'account["sum"] >= 0 and not account["doubted"]',
        'not account["doubted"]',
        "test_an_opening_below_zero_is_left_to_a_person",
    ),
    _repair(
        "entries that miss one are left to a person",
        'account["sum"] >= 0 and not account["doubted"]',
        'account["sum"] >= 0',
        "test_parts_are_each_of_one_moment_and_together_everything",
    ),
    _repair(
        "parts end behind both entries of a transfer",
        'end = _with_twin(found["_id"])',
        'end = found["_id"]',
        "test_parts_are_each_of_one_moment_and_together_everything",
    ),
]
