"""`Invitations`: one-time links to sign up with a role, among them the link for the first admin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from squinney.clock import Clock, utcnow
from squinney.errors import NotFound
from squinney.identity import queries
from squinney.identity.documents import Person
from squinney.identity.people import People, checked_role, sign_up_steps
from squinney.identity.rules import digest
from squinney.identity.sessions import new_token
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.transactions import Plan, Step, Transactions

LASTS = timedelta(hours=24)
FIRST = "first-admin"  # the document that counts accepted links for the first admin


class Invitations:
    """One-time links. One person can use a link to sign up with the role that the link grants."""

    def __init__(self, db: Db, *, transactions: Transactions | None = None, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._people = People(db, transactions=self._transactions, clock=clock)
        self._clock = clock

    @operation()
    def first_admin(self) -> str | None:
        """Create a token for the first admin; return None if there is an admin.

        The token becomes invalid as soon as another person is an admin.

        Raises: `Unavailable`.
        """
        return None if self._people.is_there_an_admin() else self._create("admin", for_the_first=True)

    @operation()
    def create(self, role: str) -> str:
        """Create a token with which one person can sign up with this role within 24 hours.

        Raises: `Invalid`, `Unavailable`.
        """
        return self._create(checked_role(role))

    def _create(self, role: str, *, for_the_first: bool = False) -> str:
        token = new_token()
        invitation: Document = {"_id": digest(token), "role": role, "expires_at": self._clock() + LASTS}
        self._db["identity.invitations"].insert_one(
            {**invitation, **({"for_the_first": True} if for_the_first else {})}
        )
        return token

    @operation(reads_only=True)
    def role_of(self, token: str) -> str:
        """Return the role that a token grants.

        Raises: `NotFound` if the token was used or has expired.
        """
        return str(self._find(token)["role"])

    @operation()
    def accept(self, token: str, login: str, password: str, *, name: str = "", also: Sequence[Step] = ()) -> Person:
        """Add a person with the role of a token; the token cannot be used again.

        `also` are further steps, which happen with it or not at all.

        Atomic: the token, the person and the login change in one `Transactions` run. If several links for the first
        admin are used at the same time, one succeeds.
        After a crash: nothing remains.
        Raises: `NotFound` if the token was used or has expired; `Invalid`, `LoginTaken`, `Unavailable`; `Busy` while
        another link for the first admin is being used; the errors of `also`.
        """
        invitation = self._find(token)
        person, steps = sign_up_steps(login, password, name=name, role=invitation["role"], now=self._clock())
        used = Step("identity.invitations", invitation["_id"], delete=True, refused=lambda _: _invalid_link())
        only_first = [self._first_admin_step()] if invitation.get("for_the_first") else []
        # guard: a link can be used once
        self._transactions.run("accept-invitation", Plan([used, *only_first, *steps]).also(also))
        return person

    def _first_admin_step(self) -> Step:
        """Return a step that fails if there is an admin or another link is creating one.

        A run that reads the increased counter also finds the admin, because both were written in one transaction.
        """
        counter = queries.FIRST_ADMIN.find_one(self._db, counter=FIRST)
        if queries.ADMINS.find_one(self._db, projection={"_id": 1}):
            raise _invalid_link()
        if counter is None:
            return Step("identity.invitations", FIRST, insert={"accepted": 1}, refused=lambda _: _invalid_link())
        return Step(
            "identity.invitations",
            FIRST,
            guard={"accepted": counter["accepted"]},
            update={"$set": {"accepted": counter["accepted"] + 1}},
            refused=lambda _: _invalid_link(),
        )

    def _find(self, token: str) -> Document:
        where = queries.INVITATION(digest=digest(token[:100]), now=self._clock())
        invitation = self._db["identity.invitations"].find_one(where)
        if invitation is None or (invitation.get("for_the_first") and self._people.is_there_an_admin()):
            raise _invalid_link()
        return invitation


def _invalid_link() -> NotFound:
    return NotFound("this link was already used or has expired")
