"""A transfer with Beanie, as its users write it: pip install 'squinney[embedded,testing]' beanie, then pytest."""

import pytest
from beanie import Document, init_beanie
from beanie.operators import Inc

from squinney.testing import NotCrashSafe, Refuted


async def accounts(db):
    """Return the class of an account. Each operation gets a client of its own, and Beanie binds a class to one."""

    class Account(Document):
        id: str
        balance: int

        class Settings:
            name = "accounts"

    await init_beanie(database=db, document_models=[Account])
    return Account


def two_accounts(db):
    db.accounts.insert_many([{"_id": "ada", "balance": 100}, {"_id": "bob", "balance": 0}])


def nothing_is_lost(db):
    balances = [account["balance"] for account in db.accounts.find()]
    assert sum(balances) == 100, balances
    assert min(balances) >= 0, balances


async def transfer(db):
    account = await accounts(db)
    ada, bob = await account.get("ada"), await account.get("bob")
    if ada.balance >= 70:
        ada.balance -= 70
        bob.balance += 70
        await ada.save()
        await bob.save()


async def transfer_in_transaction(db):
    account = await accounts(db)

    async def move(session):
        rich = account.find_one(account.id == "ada", account.balance >= 70, session=session)
        taken = await rich.update(Inc({account.balance: -70}), session=session)
        if taken.modified_count:
            await account.find_one(account.id == "bob", session=session).update(
                Inc({account.balance: 70}), session=session
            )

    async with db.client.start_session() as session:
        await session.with_transaction(move)


def test_a_crash_between_two_saves_loses_money(sweep):
    with pytest.raises(NotCrashSafe) as refuted:
        sweep(two_accounts, transfer, nothing_is_lost)
    assert {(point.write, point.way) for point in refuted.value.points} >= {(2, "before"), (1, "after")}


def test_two_transfers_give_what_was_taken_only_once(explore):
    with pytest.raises(Refuted) as refuted:
        explore([transfer, transfer], prepare=two_accounts)
    assert refuted.value.schedule == "a b4 a3"  # a reads Ada; b reads and saves both; a reads Bob, and saves both


def test_a_transaction_survives_every_crash(sweep):
    sweep(two_accounts, transfer_in_transaction, nothing_is_lost)


def test_two_transactions_end_as_if_one_came_after_the_other(explore):
    explore([transfer_in_transaction, transfer_in_transaction], nothing_is_lost, prepare=two_accounts, schedules=25)
