"""The network's part of `squinney prove`: what workers do until they are killed, and what must hold afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from squinney.ads import budgets
from squinney.ads.documents import THOUSAND
from squinney.ads.errors import BadServe
from squinney.ads.network import AdNetwork
from squinney.ads.repair import find_problems
from squinney.ads.tokens import Tokens
from squinney.clock import utcnow
from squinney.errors import Conflict, Unavailable
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.transactions import Mode

USERS = 20
# Many, because a worker killed inside a transaction holds its campaigns until the server ends the transaction.
ZONES = 20
CAP = {"impressions": 3, "per_seconds": 86_400}
# Small budgets, so that they run out before one's eyes: price, total, daily.
CAMPAIGNS: dict[str, tuple[dict[str, object], int, int]] = {
    "daily": ({"model": "cpm", "bid": 900}, 10_000, 20),
    "total": ({"model": "cpm", "bid": 800}, 30, 10_000),
    "clicks": ({"model": "cpc", "bid": 10}, 200, 150),
    "capped": ({"model": "cpm", "bid": 1_000}, 10_000, 9_000),
    "rest": ({"model": "cpm", "bid": 1}, 10_000, 9_000),
}
IMPRESSION_SECONDS = 5.0
SECRET = b"proof"
TOKENS = Tokens(SECRET)


def prepare(db: Db) -> None:
    """Make the campaigns that the workers serve, one of each kind in each zone."""
    network = AdNetwork(db)
    for zone in range(ZONES):
        for kind, (price, total, daily) in CAMPAIGNS.items():
            campaign_id = f"{kind} {zone}"
            budget = {"total": total, "daily": daily, "currency": "EUR"}
            cap = CAP if kind == "capped" else None
            network.create_campaign(campaign_id, "proof", pricing=price, budget=budget, cap=cap)
            creative = {"kind": "text", "title": campaign_id, "text": "", "url": "/"}
            network.place(campaign_id, "proof", f"zone {zone}", {"unit": campaign_id, "creative": creative})


def work(db: Db, mode: Mode, seed: int) -> None:
    """Serve, and send beacons: some twice, some forged, clicks before impressions; those answered are on record."""
    network = AdNetwork(db, secret=SECRET, impression_seconds=IMPRESSION_SECONDS)
    chance = random.Random(seed)
    while True:
        user, zone = f"user {chance.randrange(USERS)}", f"zone {chance.randrange(ZONES)}"
        with suppress(Conflict, Unavailable):
            serves = network.choose("proof", zone, user=user, count=4)
            shown = [{"user": user, "campaign_id": one.campaign_id} for one in serves]
            ids = [one.serve_id for one in serves if chance.random() < 0.9]
            if ids:
                db["served"].insert_many(shown)
                _send(db, network, ids, chance)


def _send(db: Db, network: AdNetwork, ids: list[str], chance: random.Random) -> None:
    for serve_id in chance.sample(ids, len(ids) // 4):
        network.click(serve_id)
    repeated = [*ids, *chance.sample(ids, len(ids) // 2)]
    chance.shuffle(repeated)
    first = network.impressions(repeated)
    answered = [{"serve": TOKENS.read(one).id} for one, is_first in zip(repeated, first, strict=True) if is_first]
    if answered:
        db["answered"].insert_many(answered)
    with suppress(BadServe):
        forged = Tokens(b"another secret").sign(TOKENS.read(chance.choice(ids)))
        network.impression(forged)
        db["accepted_forgeries"].insert_one({"serve_id": forged})


def settle(db: Db) -> Mapping[str, int]:
    """What the background job does."""
    return {"returned": budgets.return_lapsed(pinned(db), utcnow())}


def progress(db: Db) -> int:
    """How many serves were settled so far."""
    return db["ad_serves"].estimated_document_count()


def check(db: Db) -> dict[str, str]:
    """Each promise with what breaks it; an empty string where it holds."""
    counted = {serve["_id"]: serve for serve in db["ad_serves"].find()}
    counters = list(db["ad_counters"].find())
    answered = {one["serve"] for one in db["answered"].find()}
    forged = db["accepted_forgeries"].count_documents({})
    problems = [str(problem) for problem in find_problems(db)]
    return {
        "no budget is passed, of a day or in all": _over(counters),
        "no user was shown an ad beyond its cap": _over_cap(db),
        "impressions, clicks and spend equal the distinct serves": _differences(list(counted.values()), counters),
        "no answered beacon is lost": "" if answered <= counted.keys() else f"{len(answered - counted.keys())} beacons",
        "no forged beacon is accepted": "" if not forged else f"{forged} were",
        "find_problems is empty": "; ".join(problems[:3]),
    }


def _over(counters: list[Document]) -> str:
    by_day: Counter[tuple[str, object]] = Counter()
    in_all: Counter[str] = Counter()
    for row in counters:
        by_day[row["campaign_id"], row["day"]] += row.get("spend", 0)
        in_all[row["campaign_id"]] += row.get("spend", 0)
    over = [name for (name, _), spend in by_day.items() if spend > CAMPAIGNS[name.split()[0]][2] * THOUSAND]
    over += [name for name, spend in in_all.items() if spend > CAMPAIGNS[name.split()[0]][1] * THOUSAND]
    return ", ".join(over)


def _over_cap(db: Db) -> str:
    capped = db["served"].find({"campaign_id": {"$regex": "^capped"}})
    shown = Counter((one["user"], one["campaign_id"]) for one in capped)
    over = [key for key, times in shown.items() if times > CAP["impressions"]]
    return f"{len(over)} users" if over else ""


def _differences(serves: list[Document], counters: list[Document]) -> str:
    found = []
    for kind in ("impressions", "clicks"):
        told, true = sum(row.get(kind, 0) for row in counters), sum(kind in serve for serve in serves)
        if told != true:
            found.append(f"{told} {kind} of {true}")
    told, true = sum(row.get("spend", 0) for row in counters), sum(serve["charged"] for serve in serves)
    if told != true:
        found.append(f"spend {told} of {true}")
    return ", ".join(found)
