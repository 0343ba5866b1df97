"""The process that plays one schedule of two plain transfers for the site's page, and prints its `Recording`.

It is a process of its own because the explorer replaces `time.sleep` and locks while it plays.
"""

from __future__ import annotations

import inspect
import os
import sys
from contextlib import suppress

from pydantic import TypeAdapter

from squinney.mongo.schema import Db
from squinney.service.proving.transfers import plain_transfer
from squinney.settings import Settings
from squinney.testing.explorer import Explorer, Operation, Refuted
from squinney.testing.explorer.recording import Recording

NICE = 10
RECORDING = TypeAdapter(Recording)


def two_accounts(db: Db) -> None:
    """Ada has 100, Bob has nothing."""
    db["accounts"].insert_many([{"_id": "ada", "balance": 100}, {"_id": "bob", "balance": 0}])


def move_70(db: Db) -> None:
    """Move 70 from Ada to Bob."""
    plain_transfer(db, "ada", "bob", 70)


def nothing_is_lost(db: Db) -> None:
    """The sum is unchanged, and nobody has less than nothing."""
    balances = [account["balance"] for account in db["accounts"].find()]
    assert sum(balances) == 100, f"{sum(balances)} of 100 are left"
    assert min(balances) >= 0, "an account is overdrawn"


WRONG = '''"""pip install 'squinney[embedded,testing]' && pytest test_transfer.py"""

import pytest

from squinney.errors import Conflict
from squinney.testing import Refuted


{functions}


def test_this_schedule_goes_wrong(explore):
    with pytest.raises(Refuted):
        explore([move_70, move_70], nothing_is_lost, prepare=two_accounts, replay="{schedule}")
'''
RIGHT = '''"""pip install 'squinney[embedded,testing]' && pytest test_transfer.py"""

from squinney.errors import Conflict


{functions}


def test_this_schedule_is_right(explore):
    explore([move_70, move_70], nothing_is_lost, prepare=two_accounts, replay="{schedule}")
'''


def as_pytest(recording: Recording) -> str:
    """Return a test that plays the schedule again."""
    functions = (two_accounts, plain_transfer, move_70, nothing_is_lost)
    sources = "\n\n\n".join(inspect.getsource(function).rstrip() for function in functions)
    for annotation in (": Db", " -> None", ": str", ": int"):
        sources = sources.replace(annotation, "")
    return (WRONG if recording.wrong else RIGHT).format(functions=sources, schedule=recording.schedule)


def record(uri: str, schedule: str) -> Recording:
    """Play the schedule; return what happened.

    Raises: `ValueError` if it is not a schedule of two transfers.
    """
    operations = [Operation(move_70, "transfer"), Operation(move_70, "transfer")]
    with Explorer(uri, records=True) as explorer:
        with suppress(Refuted):
            explorer.explore(operations, nothing_is_lost, prepare=two_accounts, replay=schedule)
        assert explorer.recording
        return explorer.recording


def main() -> None:
    """Print the recording of the schedule; exit with 2 and a message if it is not possible."""
    os.nice(NICE)
    try:
        recording = record(Settings.from_environment().uri or "", sys.argv[1])
    except ValueError as error:
        sys.exit(f"{error}")
    sys.stdout.buffer.write(RECORDING.dump_json(recording))


if __name__ == "__main__":
    main()
