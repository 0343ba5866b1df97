"""`Invitations`: one-time links, for the first admin and for whoever forgot a password."""

from __future__ import annotations

from datetime import timedelta

from squinney.clock import Clock, utcnow
from squinney.errors import NotFound
from squinney.identity import queries
from squinney.identity.documents import Person
from squinney.identity.errors import LoginTaken
from squinney.identity.people import People, checked_role, sign_up_steps
from squinney.identity.rules import digest
from squinney.identity.sessions import new_token
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.transactions import AlreadyExists, Plan, Step, Transactions

LASTS = timedelta(hours=24)
FIRST = "first-admin"  # counts the links for the first admin that were used


class Invitations:
    """Links that let one person choose a login and a password, once, with the role the link gives."""

    def __init__(self, db: Db, *, transactions: Transactions | None = None, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._people = People(db, transactions=self._transactions, clock=clock)
        self._clock = clock

    @operation()
    def first_admin(self) -> str | None:
        """A token for the first admin; None where there is an admin already. It ends when somebody else is faster.

        Atomic: one insert.
        After a crash: a token that nobody knows, until it runs out.
        Raises: `Unavailable`.
        """
        return None if self._people.is_there_an_admin() else self._create("admin", for_the_first=True)

    @operation()
    def create(self, role: str) -> str:
        """A token that makes one person with this role; it lasts a day.

        Atomic: one insert.
        After a crash: a token that nobody knows, until it runs out.
        Raises: `Invalid`, `Unavailable`.
        """
        return self._create(checked_role(role))

    def _create(self, role: str, *, for_the_first: bool = False) -> str:
        token = new_token()
        invitation: Document = {"_id": digest(token), "role": role, "expires_at": self._clock() + LASTS}
        self._db["invitations"].insert_one({**invitation, **({"for_the_first": True} if for_the_first else {})})
        return token

    @operation(reads_only=True)
    def role_of(self, token: str) -> str:
        """The role that a token gives.

        Raises: `NotFound` where it was used or ran out.
        """
        return str(self._find(token)["role"])

    @operation()
    def accept(self, token: str, login: str, password: str, *, name: str = "") -> Person:
        """Use a token up and add its person.

        Atomic: the token, the person and their login, in one `Transactions` run; of several links for the first admin
        that are used at once, one is.
        After a crash: nothing, or in two-phase mode what `recover-transactions` settles.
        Raises: `NotFound` where it was used or ran out, `Invalid`, `LoginTaken`, `Unavailable`.
        """
        invitation = self._find(token)
        person, steps = sign_up_steps(login, password, name=name, role=invitation["role"], now=self._clock())
        used = Step("invitations", invitation["_id"], delete=True, refused=lambda found: _gone())
        alone = [self._none_before()] if invitation.get("for_the_first") else []
        try:
            self._transactions.run("accept-invitation", Plan([used, *alone, *steps]))
        except AlreadyExists as error:
            raise LoginTaken("somebody else has this login", field="login") from error
        return person

    def _none_before(self) -> Step:
        """There is no admin yet, and no other link makes one: it has the count to itself until it is decided.

        Whoever reads the count after it was raised finds the admin, or what will be one, who was written before.
        """
        start = {"$setOnInsert": {"accepted": 0}}
        found = self._db["invitations"].find_one_and_update({"_id": FIRST}, start, upsert=True, return_document=True)
        if self._db["people"].find_one(queries.ADMINS_TO_BE(), {"_id": 1}):
            raise _gone()
        accepted = found["accepted"] if found else 0
        return Step(
            "invitations",
            FIRST,
            guard={"accepted": accepted},
            give={"$set": {"accepted": accepted + 1}},
            refused=lambda _: _gone(),
        )

    def _find(self, token: str) -> Document:
        where = queries.INVITATION(digest=digest(token[:100]), now=self._clock())
        found = self._db["invitations"].find_one(where)
        if found is None or (found.get("for_the_first") and self._people.is_there_an_admin()):
            raise _gone()
        return found


def _gone() -> NotFound:
    return NotFound("this link was used or ran out")
