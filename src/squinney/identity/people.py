"""`People`: signing up, signing in and roles."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid
from squinney.identity import passwords, queries
from squinney.identity.documents import WITHOUT_MARKERS, Person
from squinney.identity.errors import LoginTaken, SignInRefused, UnknownPerson
from squinney.identity.rules import LOGIN
from squinney.identity.throttle import Throttle
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.addresses import network_of
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.roles import ROLES
from squinney.transactions import Plan, Step, Transactions

TRIES_PER_LOGIN = 10  # from one address
TRIES_PER_LOGIN_UNDER_ATTACK = 3  # from one address, while many addresses guess the password of the login
FAILURES_THAT_ARE_AN_ATTACK = 50  # for one login, from all addresses
TRIES_PER_ADDRESS = 50
TRIES_SECONDS = 15 * 60.0
SIGN_UPS_PER_ADDRESS = 50
SIGN_UPS_SECONDS = 3_600.0


class People:
    """The people who can sign in."""

    def __init__(self, db: Db, *, transactions: Transactions | None = None, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._clock = clock
        self._by_login = Throttle(self._db, "login", limit=TRIES_PER_LOGIN, seconds=TRIES_SECONDS)
        self._by_address = Throttle(self._db, "address", limit=TRIES_PER_ADDRESS, seconds=TRIES_SECONDS)
        self._attacks = Throttle(self._db, "failures", limit=FAILURES_THAT_ARE_AN_ATTACK, seconds=TRIES_SECONDS)
        self._sign_ups = Throttle(self._db, "sign-up", limit=SIGN_UPS_PER_ADDRESS, seconds=SIGN_UPS_SECONDS)

    @operation()
    def sign_up(
        self,
        login: str,
        password: str,
        *,
        name: str = "",
        role: str = "member",
        address: str = "",
        also: Sequence[Step] = (),
    ) -> Person:
        """Add a person. If `address` is given, an address can make 50 attempts per hour.
        `also` are further steps, which happen with it or not at all.

        Atomic: the person and the login are inserted in one `Transactions` run, after the attempt was counted.
        After a crash: the attempt may be counted.
        Raises: `Invalid`, `LoginTaken`, `TooManyTries`, `Unavailable`; the errors of `also`.
        """
        if address:
            self._sign_ups.count(network_of(address))
        person, steps = sign_up_steps(login, password, name=name, role=role, now=self._clock())
        self._transactions.run("sign-up", Plan(steps).also(also))
        return person

    @operation()
    def sign_in(self, login: str, password: str, *, address: str = "") -> Person:
        """Return the person with this login and password, for `Sessions.start`.

        Attempts are limited per address, and per login from each address, so that another address cannot lock a person
        out. An attempt with the right password is not counted. All callers without an address share one limit.

        Atomic: each count is one update.
        After a crash: the attempt may be counted.
        Raises: `SignInRefused`, with the same message for a wrong login and a wrong password; `TooManyTries`;
        `Unavailable`.
        """
        login = checks.text(login, "login", max_length=200).strip().lower()
        checks.text(password, "password", max_length=10_000)
        network = network_of(address)
        # guard: attempts are counted per login
        self._count_try(login, network)
        credentials = queries.LOGIN.find_one(self._db, login=login) or {}
        # guard: a wrong password is refused
        right = passwords.matches(credentials.get("password"), password)
        person = self._find(credentials["person_id"]) if right else None
        # guard: a disabled person cannot sign in
        if person is None or person.get("disabled_at"):
            self._attacks.increment(login)
            raise SignInRefused("the login or the password is wrong")
        self._by_login.reset(f"{login} {network}")
        if network:
            self._by_address.uncount(network)
        self._rehash_if_outdated(credentials, password)
        # guard: a session gets the credential of the checked password
        return _with_credential(person, credentials)

    def _count_try(self, login: str, network: str) -> None:
        """Count an attempt. When many addresses try one login, each address gets fewer attempts, but always some."""
        if network:
            # guard: attempts are counted per address
            self._by_address.count(network)
        attacked = self._attacks.is_used_up(login)
        self._by_login.count(f"{login} {network}", limit=TRIES_PER_LOGIN_UNDER_ATTACK if attacked else None)

    def _rehash_if_outdated(self, credentials: Document, password: str) -> None:
        if passwords.is_outdated(credentials["password"]):
            # guard: rehashing does not restore an old password
            unchanged = {**queries.LOGIN(login=credentials["_id"]), "password": credentials["password"]}
            self._db["identity.logins"].update_one(unchanged, {"$set": {"password": passwords.hashed(password)}})

    @operation(reads_only=True)
    def get(self, person_id: str) -> Person:
        """Return the person with this id.

        Raises: `UnknownPerson`.
        """
        person = self._find(checks.identifier(person_id, "person"))
        if person is None:
            raise _unknown(person_id)
        return person

    @operation(reads_only=True)
    def by_login(self, login: str) -> Person:
        """Return the person with this login.

        Raises: `UnknownPerson`.
        """
        wanted = checks.text(login, "login", max_length=200).strip().lower()
        credentials = queries.LOGIN.find_one(self._db, login=wanted)
        person = self._find(credentials["person_id"]) if credentials else None
        if person is None:
            raise UnknownPerson(f"there is no login {wanted}", login=wanted)
        return person

    @operation(reads_only=True)
    def all(self, *, cursor: str | None = None, limit: int = 50) -> Page[Person]:
        """List all people, oldest first."""
        people = page(self._db, queries.PEOPLE, cursor=cursor, limit=limit, projection=WITHOUT_MARKERS)
        return cast(Page[Person], people)

    @operation()
    def set_role(self, person_id: str, role: str) -> Person:
        """Change a person's role, with effect from their next request.

        Raises: `Invalid`, `UnknownPerson`.
        """
        return self._change(person_id, {"$set": {"role": checked_role(role)}})

    @operation()
    def disable(self, person_id: str) -> Person:
        """Disable a person: they cannot sign in, and their sessions are invalid from their next request on.

        Raises: `UnknownPerson`.
        """
        return self._change(person_id, {"$set": {"disabled_at": self._clock()}})

    @operation()
    def enable(self, person_id: str) -> Person:
        """Allow a disabled person to sign in again.

        Raises: `UnknownPerson`.
        """
        return self._change(person_id, {"$unset": {"disabled_at": ""}})

    @operation()
    def set_password(self, person_id: str, password: str, *, also: Sequence[Step] = ()) -> Person:
        """Change a person's password and end all their sessions, even one that is being started with the old password.

        `also` are further steps, which happen with it or not at all.

        Atomic: the password and the `credential_id` of valid sessions change in one `Transactions` run.
        After a crash: documents of invalid sessions may
        remain until they expire.
        Raises: `Invalid`; `UnknownPerson`, also if the login is missing; `Unavailable`; the errors of `also`.
        """
        person = self.get(person_id)
        stored = {"password": passwords.hashed(passwords.checked(password)), "credential_id": new_id()}
        missing = UnknownPerson(f"there is no login {person['login']}", login=person["login"])
        guard, credential = {"person_id": person_id}, {"credential_id": stored["credential_id"]}
        steps = [
            Step("identity.logins", person["login"], guard=guard, update={"$set": stored}, refused=lambda _: missing),
            # guard: a new password invalidates sessions that are being started
            Step("identity.people", person_id, update={"$set": credential}, refused=lambda _: _unknown(person_id)),
        ]
        self._transactions.run("set-password", Plan(steps).also(also))
        self._db["identity.sessions"].delete_many(queries.SESSIONS_OF(person_id=person_id))
        return _with_credential(person, stored)

    @operation(reads_only=True)
    def is_there_an_admin(self) -> bool:
        """Return whether any person is an admin."""
        return queries.ADMINS.find_one(self._db, projection={"_id": 1}) is not None

    def _find(self, person_id: str) -> Person | None:
        return cast(Person | None, queries.PERSON.find_one(self._db, person_id=person_id, projection=WITHOUT_MARKERS))

    def _change(self, person_id: str, update: Document) -> Person:
        where = queries.PERSON(person_id=checks.identifier(person_id, "person"))
        changed = self._db["identity.people"].find_one_and_update(where, update, WITHOUT_MARKERS, return_document=True)
        if changed is None:
            raise _unknown(person_id)
        return cast(Person, changed)


def _unknown(person_id: str) -> UnknownPerson:
    return UnknownPerson(f"there is no person {person_id}", person_id=person_id)


def _with_credential(person: Person, credentials: Document) -> Person:
    """Return the person with the `credential_id` of the checked password; that of the person may be newer or older."""
    plain = {name: value for name, value in person.items() if name != "credential_id"}
    known = {name: credentials[name] for name in ("credential_id",) if name in credentials}
    return cast(Person, {**plain, **known})


def sign_up_steps(login: str, password: str, *, name: str, role: str, now: datetime) -> tuple[Person, list[Step]]:
    """Return the new person and the steps that insert the person and the login, for use in a larger transaction.

    Raises: `Invalid`, `Unavailable`.
    """
    login = checked_login(login)
    checks.text(name, "name", max_length=100, pattern=r"[^\r\n]*")
    person: Person = {
        "_id": new_id(),
        "login": login,
        "name": name.strip() or login,
        "role": checked_role(role),
        "created_at": now,
    }
    stored = passwords.hashed(passwords.checked(password))
    credentials = {"_id": login, "person_id": person["_id"], "password": stored}
    taken = LoginTaken("login is already taken", field="login")
    inserted = Step("identity.logins", login, insert=credentials, refused=lambda _: taken)
    return person, [inserted, Step("identity.people", person["_id"], insert=person)]


def checked_login(login: str) -> str:
    """Return the login in lower case if it is valid: 2 to 100 characters.

    Raises: `Invalid`.
    """
    lowered = checks.text(login, "login", max_length=100).strip().lower()
    return checks.text(lowered, "login", min_length=2, max_length=100, pattern=LOGIN)


def checked_role(role: str) -> str:
    """Return the role if it is `member`, `editor` or `admin`.

    Raises: `Invalid`.
    """
    if role not in ROLES[1:]:
        raise Invalid(f"role must be one of {', '.join(ROLES[1:])}", field="role")
    return role
