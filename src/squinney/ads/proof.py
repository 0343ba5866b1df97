"""The network's part of `squinney prove`: what worker processes do until they are killed, and the final checks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from squinney.ads.documents import THOUSAND
from squinney.ads.errors import BadServe
from squinney.ads.jobs import return_leases
from squinney.ads.network import AdNetwork
from squinney.ads.repair import find_problems
from squinney.ads.tokens import Tokens
from squinney.errors import Conflict, Unavailable
from squinney.mongo.schema import Db, Document

USERS = 20
# Many, because a worker killed inside a transaction blocks its campaigns until the server aborts the transaction.
ZONES = 20
CAP = {"impressions": 3, "per_seconds": 86_400}
# Price, total, daily budget: small, so that budgets run out during the proof.
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
    """Create the campaigns that the workers serve, one of each kind in each zone."""
    network = AdNetwork(db)
    for zone in range(ZONES):
        for kind, (price, total, daily) in CAMPAIGNS.items():
            campaign_id = f"{kind} {zone}"
            budget = {"total": total, "daily": daily, "currency": "EUR"}
            cap = CAP if kind == "capped" else None
            network.create_campaign(campaign_id, "proof", pricing=price, budget=budget, cap=cap)
            creative = {"kind": "text", "title": campaign_id, "text": "", "url": "/"}
            network.place(campaign_id, "proof", f"zone {zone}", {"unit": campaign_id, "creative": creative})


def work(db: Db, seed: int) -> None:
    """Choose ads and send beacons until killed: some twice, some forged, some clicks before their impressions.

    Acknowledged beacons are recorded in `answered`.
    """
    network = AdNetwork(db, secret=SECRET, impression_seconds=IMPRESSION_SECONDS)
    rng = random.Random(seed)
    while True:
        user, zone = f"user {rng.randrange(USERS)}", f"zone {rng.randrange(ZONES)}"
        with suppress(Conflict, Unavailable):
            serves = network.choose("proof", zone, user=user, count=4)
            shown = [{"user": user, "campaign_id": serve.campaign_id} for serve in serves]
            ids = [serve.serve_id for serve in serves if rng.random() < 0.9]
            if ids:
                db["served"].insert_many(shown)
                _send(db, network, ids, rng)


def _send(db: Db, network: AdNetwork, ids: list[str], rng: random.Random) -> None:
    for serve_id in rng.sample(ids, len(ids) // 4):
        network.click(serve_id)
    repeated = [*ids, *rng.sample(ids, len(ids) // 2)]
    rng.shuffle(repeated)
    first = network.impressions(repeated)
    answered = [{"serve": TOKENS.read(token).id} for token, is_first in zip(repeated, first, strict=True) if is_first]
    if answered:
        db["answered"].insert_many(answered)
    with suppress(BadServe):
        forged = Tokens(b"another secret").sign(TOKENS.read(rng.choice(ids)))
        network.impression(forged)
        db["accepted_forgeries"].insert_one({"serve_id": forged})


def settle(db: Db) -> Mapping[str, int]:
    """Return expired leases, as the background job does."""
    return return_leases(db)


def progress(db: Db) -> int:
    """Return the number of serves settled so far."""
    return db["ads.serves"].estimated_document_count()


def check(db: Db) -> dict[str, str]:
    """Check each promise; return what breaks it, or an empty string."""
    counted = {serve["_id"]: serve for serve in db["ads.serves"].find()}
    counters = list(db["ads.counters"].find())
    answered = {row["serve"] for row in db["answered"].find()}
    forged = db["accepted_forgeries"].count_documents({})
    problems = [str(problem) for problem in find_problems(db)]
    return {
        "no budget is exceeded, daily or total": _overspent(counters),
        "no user was shown an ad beyond its cap": _over_cap(db),
        "impressions, clicks and spend equal the distinct serves": _differences(list(counted.values()), counters),
        "no acknowledged beacon is lost": ""
        if answered <= counted.keys()
        else f"{len(answered - counted.keys())} lost",
        "no forged beacon is accepted": "" if not forged else f"{forged} accepted",
        "find_problems is empty": "; ".join(problems[:3]),
    }


def _overspent(counters: list[Document]) -> str:
    by_day: Counter[tuple[str, object]] = Counter()
    total: Counter[str] = Counter()
    for row in counters:
        by_day[row["campaign_id"], row["day"]] += row.get("spend", 0)
        total[row["campaign_id"]] += row.get("spend", 0)
    over = [name for (name, _), spend in by_day.items() if spend > CAMPAIGNS[name.split()[0]][2] * THOUSAND]
    over += [name for name, spend in total.items() if spend > CAMPAIGNS[name.split()[0]][1] * THOUSAND]
    return ", ".join(over)


def _over_cap(db: Db) -> str:
    capped = db["served"].find({"campaign_id": {"$regex": "^capped"}})
    shown = Counter((row["user"], row["campaign_id"]) for row in capped)
    over = [key for key, times in shown.items() if times > CAP["impressions"]]
    return f"{len(over)} users" if over else ""


def _differences(serves: list[Document], counters: list[Document]) -> str:
    differences = []
    for kind in ("impressions", "clicks"):
        counted, true = sum(row.get(kind, 0) for row in counters), sum(kind in serve for serve in serves)
        if counted != true:
            differences.append(f"{counted} {kind} counted, {true} in the serves")
    counted, true = sum(row.get("spend", 0) for row in counters), sum(serve["charged"] for serve in serves)
    if counted != true:
        differences.append(f"spend {counted} counted, {true} in the serves")
    return ", ".join(differences)
