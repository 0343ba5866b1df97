"""What a new member of the demo finds: an account with play money, and a character in the world."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from squinney.errors import Invalid, SquinneyError
from squinney.game import NameTaken, World
from squinney.ledger import Accounts
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.service.town.parts import MARKS, is_demo
from squinney.system import Assembled
from squinney.transactions import AlreadyExists, Step

log = logging.getLogger(__name__)

CURRENCY = "EUR"
PLAY_MONEY = 10_000
GOLD = 40
Gift = Callable[[Step], object]


class Welcome:
    """Gives each person who signs in to a demo what a newcomer needs, once."""

    def __init__(self, db: Db, *, accounts: Accounts | None = None, world: World | None = None) -> None:
        self._db = pinned(db)
        self._accounts = accounts
        self._world = world

    def __call__(self, person_id: str, name: str) -> None:
        """Give it. A gift that cannot be given now is given at the next sign-in."""
        try:
            self.give(person_id, name)
        # guard: nobody is refused because of a gift
        except SquinneyError as error:
            log.info("a new member has not got all gifts yet: %s", error)

    @operation()
    def give(self, person_id: str, name: str) -> None:
        """Give a person an account with play money and a character, unless this is no demo or they had them already.

        Atomic: each gift, with a mark that it was given.
        After a crash: the gifts so far; the next call gives the others.
        Raises: `Busy`, `Unavailable`; `NotFound` if the world has no rooms.
        """
        # guard: money is given in a demo only
        if not is_demo(self._db):
            return
        if accounts := self._accounts:
            owned = f"{name}, current account"[:100]
            self._once(
                f"account of {person_id}",
                lambda mark: accounts.open(CURRENCY, PLAY_MONEY, name=owned, owner=person_id, also=[mark]),
            )
        if world := self._world:
            self._once(f"character of {person_id}", lambda mark: _enter(world, person_id, name, mark))

    def _once(self, gift: str, give: Gift) -> None:
        if self._db[MARKS].find_one({"_id": gift}):
            return
        # guard: a gift is given once
        mark = Step(MARKS, gift, insert={"given": True}, refused=AlreadyExists)
        with suppress(AlreadyExists):
            give(mark)


def welcome(systems: Assembled) -> Welcome:
    """Return what welcomes the new members of a site."""
    ledger, game = systems.services.get("ledger", {}), systems.services.get("game", {})
    return Welcome(systems.db, accounts=ledger.get("accounts"), world=game.get("world"))


def _enter(world: World, person_id: str, name: str, mark: Step) -> None:
    """Let the person's character begin, under the person's name if the world allows it and nobody has it."""
    for character_name in (name, f"newcomer {person_id[-8:]}"):
        with suppress(Invalid, NameTaken):
            world.create_character(
                character_name, location=world.start()["_id"], gold=GOLD, owner=person_id, also=[mark]
            )
            return
