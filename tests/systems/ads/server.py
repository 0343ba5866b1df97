"""A server process of the big race: its threads choose ads and send beacons until the file `stop` exists.

Each serve and each acknowledged beacon is written to a file, line by line, so that the record survives a kill.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from contextlib import suppress
from pathlib import Path

from squinney.ads import AdNetwork, BadServe
from squinney.ads.proof import IMPRESSION_SECONDS, SECRET, TOKENS, ZONES
from squinney.ads.tokens import Tokens
from squinney.errors import Conflict, Unavailable
from squinney.mongo.connect import client_for

USERS = 500
BATCH = 25
UNKNOWN = 0.5  # of the visitors: no cap holds for them
ADS = 4  # of a choice
OTHERS = Tokens(b"another secret")


def main(uri: str, database: str, folder: str, name: str, threads: int) -> None:
    """Choose ads and send beacons until the file `stop` exists."""
    stop = Path(folder) / "stop"
    record = os.open(Path(folder) / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with client_for(uri) as client:
        network = AdNetwork(client[database], secret=SECRET, impression_seconds=IMPRESSION_SECONDS)

        def work(number: int) -> None:
            chance = random.Random(f"{name} {number}")
            while not stop.exists():
                with suppress(Conflict, Unavailable):
                    _serve(network, record, chance)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        network.close()


def _serve(network: AdNetwork, record: int, chance: random.Random) -> None:
    ids, lines = [], []
    for _ in range(BATCH):
        user = f"user {chance.randrange(USERS)}" if chance.random() > UNKNOWN else None
        for serve in network.choose("proof", f"zone {chance.randrange(ZONES)}", user=user, count=ADS):
            ids.append(serve.serve_id)
            lines.append(f"served\t{user or ''}\t{serve.campaign_id}\n")
    os.write(record, "".join(lines).encode())
    sent = [*ids, *chance.sample(ids, len(ids) // 4)]  # some twice
    chance.shuffle(sent)
    if ids and chance.random() < 0.3:
        network.click(chance.choice(ids))  # before its impression
        with suppress(BadServe):
            network.impression(OTHERS.sign(TOKENS.read(ids[0])))
            os.write(record, b"forged\n")
    firsts = network.impressions(sent)
    answered = [TOKENS.read(one).id for one, first in zip(sent, firsts, strict=True) if first]
    os.write(record, "".join(f"answered\t{one}\n" for one in answered).encode())


if __name__ == "__main__":
    main(*sys.argv[1:5], threads=int(sys.argv[5]))
