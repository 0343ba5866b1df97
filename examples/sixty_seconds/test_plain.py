def two_accounts(db):
    db.accounts.insert_many([{"_id": "ada", "balance": 100}, {"_id": "bob", "balance": 0}])


def transfer(db):
    if db.accounts.find_one({"_id": "ada"})["balance"] >= 70:
        db.accounts.update_one({"_id": "ada"}, {"$inc": {"balance": -70}})
        db.accounts.update_one({"_id": "bob"}, {"$inc": {"balance": 70}})


def nothing_is_lost(db):
    balances = [account["balance"] for account in db.accounts.find()]
    assert sum(balances) == 100, balances
    assert min(balances) >= 0, balances


def test_a_crash_at_any_write(sweep):
    sweep(two_accounts, transfer, nothing_is_lost)


def test_two_at_the_same_time(explore):
    explore([transfer, transfer], nothing_is_lost, prepare=two_accounts)
