"""`World`: the class with every operation on rooms, things and characters."""

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
from squinney.game.records import CACHE_SIZE, DocumentCache, Records
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import Transactions


class World(Reading, Building, Walking, Carrying, Packing, Using, Trading):
    """A world in which each thing is in exactly one place, and gold is neither created nor lost.

    Several instances, in several processes and with different transaction modes, may work on the same world. Readers
    may see a part of a two-phase action while it runs; they see a native one completely or not at all.
    """

    def __init__(
        self,
        db: Db,
        *,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
        cache_size: int = CACHE_SIZE,
        acts_per_minute: int = 0,
    ) -> None:
        """`cache_size` is the number of documents that are cached, so that actions need no read; 0 disables the cache.

        `acts_per_minute` limits each player; saying something counts as five acts. 0 means no limit.
        """
        self._db = pinned(db)
        self._records = Records(self._db)
        self._cache = DocumentCache(checks.integer(cache_size, "cache_size", least=0))
        self._transactions = transactions or Transactions(db)
        self._clock = clock
        self._acts_per_minute = checks.integer(acts_per_minute, "acts_per_minute", least=0)

    def load_world(self, file: Path | str) -> Report:
        """Load a world from a YAML or JSON file, from a CircleMUD file, or from a folder of CircleMUD files.

        The report counts what was created. It lists, by file and line, what could not be read and which exits lead to
        no room. A room that already exists is left as it is, with everything in it.

        Atomic: each room with everything in it; several rooms share one `Transactions` run.
        After a crash: run it again; it creates the rooms that are missing.
        Raises: `Invalid` for a file that cannot be read at all; `AlreadyExists` if a character or a thing of a missing
        room exists elsewhere; `Busy`, `Unavailable`.
        """
        return insert_rooms(self._db, self._transactions, read_world(file), self._clock())
