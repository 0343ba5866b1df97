from test_plain import nothing_is_lost, two_accounts

from squinney.transactions import COLLECTIONS, Step, Transactions


def transfer(db):
    steps = [
        Step("accounts", "ada", guard={"balance": {"$gte": 70}}, update={"$inc": {"balance": -70}}),
        Step("accounts", "bob", update={"$inc": {"balance": 70}}),
    ]
    Transactions(db).run("transfer", steps)


def test_a_crash_at_any_write(sweep):
    sweep(two_accounts, transfer, nothing_is_lost, collections=COLLECTIONS)


def test_two_at_the_same_time(explore):
    explore([transfer, transfer], nothing_is_lost, prepare=two_accounts, collections=COLLECTIONS)
