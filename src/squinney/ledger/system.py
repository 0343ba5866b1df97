"""The declaration of the ledger."""

from __future__ import annotations

from squinney.ledger import proof
from squinney.ledger.accounts import Accounts
from squinney.ledger.demo import demo
from squinney.ledger.documents import COLLECTIONS
from squinney.ledger.migration import OrderOfOldEntries
from squinney.ledger.queries import QUERIES
from squinney.ledger.repair import find_problems, repair
from squinney.patterns.jobs import Job
from squinney.system import Proof, System, counts_of
from squinney.transactions.two_phase import recover

SYSTEM = System(
    package="squinney.ledger",
    title="Ledger",
    what="Accounts between which money moves. Money is never created, lost or spent twice.",
    collections=COLLECTIONS,
    queries=QUERIES,
    build=lambda db, transactions: {"accounts": Accounts(db, transactions=transactions)},
    jobs=[
        Job(
            "recover-two-phase",
            every_seconds=5,
            run=recover,
            what="finishes or undoes transfers of crashed processes, if the ledger is two-phase",
        )
    ],
    find_problems=find_problems,
    repair=repair,
    demo=demo,
    figures=counts_of({"accounts": "ledger.accounts", "entries": "ledger.entries"}),
    proof=Proof.of(proof),
    migrations=lambda db: [OrderOfOldEntries(db)],
)
