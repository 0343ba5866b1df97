"""`World`: rooms, things and characters, and all that can be done in it."""

from __future__ import annotations

from pathlib import Path

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.game.actions.building import Building
from squinney.game.actions.carrying import Carrying
from squinney.game.actions.packing import Packing
from squinney.game.actions.trading import Trading
from squinney.game.actions.using import Using
from squinney.game.actions.walking import Walking
from squinney.game.loading.blueprint import Report
from squinney.game.loading.files import read_world
from squinney.game.loading.insert_rooms import insert_rooms
from squinney.game.reading import Reading
from squinney.game.records import MOST_REMEMBERED, Memory, Records
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import Transactions


class World(Reading, Building, Walking, Carrying, Packing, Using, Trading):
    """A world in which each thing is in exactly one place, and gold is neither made nor lost.

    Several instances, in several processes and in different transaction modes, may work on the same world. While a
    two-phase action is under way, other readers may see it half done; a native one is seen whole or not at all.
    """

    def __init__(
        self,
        db: Db,
        *,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
        remembers: int = MOST_REMEMBERED,
        acts_per_minute: int = 0,
    ) -> None:
        """`remembers` so many documents, from which actions are planned without a read; 0: each action reads.
        A player may do so many acts a minute, of which words count for five; 0: as many as they like."""
        self._db = pinned(db)
        self._records = Records(self._db)
        self._memory = Memory(checks.integer(remembers, "remembers", least=0))
        self._transactions = transactions or Transactions(db)
        self._clock = clock
        self._acts_per_minute = checks.integer(acts_per_minute, "acts_per_minute", least=0)

    def load_world(self, file: Path | str) -> Report:
        """Make the world of a YAML or JSON file, or of CircleMUD files (one, or a folder of them).

        The report tells what was made, and by file and line what could not be read and which exits lead to no room.
        A room that is there already stays as it is, with all that is in it.

        Atomic: each room with all that is in it, some rooms in one `Transactions` run.
        After a crash: run it again; it goes on with the rooms that are missing.
        Raises: `Invalid` for a file that cannot be read at all, `Busy`, `Unavailable`.
        """
        return insert_rooms(self._db, self._transactions, read_world(file), self._clock())
