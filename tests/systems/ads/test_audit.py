"""`find_problems` finds the same wrong sums and lost placements as a plain computation in Python."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime

from squinney.ads import find_problems, repair
from squinney.mongo.schema import Db, Document

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def fill(db: Db, count: int) -> None:
    """Insert budgets: some are wrong, some have no total, some have no campaign."""
    choice = random.Random(3)
    for number in range(count):
        name = f"c{number}"
        leased = [choice.randrange(500) for _ in range(choice.choice([0, 1, 3]))]
        spent = [choice.randrange(500) for _ in range(choice.choice([0, 1, 3]))]
        budget: Document = {"_id": name, "spent": sum(spent), "committed": sum(spent) + sum(leased)}
        budget["total"] = budget["committed"] + choice.choice([0, 1, 1000, -1])
        damaged = choice.choice(["", "spent", "committed", "total", "none"])
        if damaged in ("spent", "committed"):
            budget[damaged] += 1
        elif damaged == "total":
            del budget["total"]
        if damaged != "none":
            db["ads.budgets"].insert_one(budget)
        if choice.random() < 0.9:
            db["ads.campaigns"].insert_one({"_id": name})
        leases = [{"campaign_id": name, "amount": amount, "until": DAY} for amount in leased]
        counters = [{"campaign_id": name, "day": DAY, "unit": str(n), "spend": one} for n, one in enumerate(spent)]
        for collection, documents in (("ads.leases", leases), ("ads.counters", counters)):
            if documents:
                db[collection].insert_many(documents)
        ids = [{"site": "s", "zone": f"z{zone}", "ad_unit": name} for zone in range(choice.randrange(3))]
        for one in ids:
            db["ads.placements"].insert_one({"_id": one, "campaign_id": name})


def added_up(db: Db) -> set[tuple[str, str]]:
    leased: defaultdict[str, int] = defaultdict(int)
    spend: defaultdict[str, int] = defaultdict(int)
    for lease in db["ads.leases"].find():
        leased[lease["campaign_id"]] += lease["amount"]
    for counter in db["ads.counters"].find():
        spend[counter["campaign_id"]] += counter["spend"]
    found = set()
    for budget in db["ads.budgets"].find():
        name = budget["_id"]
        if budget["spent"] != spend[name]:
            found.add(("wrong-spend", name))
        if budget["committed"] != budget["spent"] + leased[name]:
            found.add(("wrong-commitment", name))
        if budget["committed"] > budget.get("total", -1):
            found.add(("over-budget", name))
    known = set(db["ads.campaigns"].distinct("_id"))
    lost = [placement for placement in db["ads.placements"].find() if placement["campaign_id"] not in known]
    return found | {("lost-placement", str(one["_id"])) for one in lost}


def found_problems(db: Db) -> set[tuple[str, str]]:
    codes = ("wrong-spend", "wrong-commitment", "over-budget", "lost-placement")
    return {(problem.code, str(*problem.documents.values())) for problem in find_problems(db) if problem.code in codes}


def test_problems_equal_those_found_by_adding_up_in_python(ads_db: Db) -> None:
    fill(ads_db, 120)
    assert {code for code, _ in found_problems(ads_db)} == {
        "wrong-spend",
        "wrong-commitment",
        "over-budget",
        "lost-placement",
    }
    assert found_problems(ads_db) == added_up(ads_db)
    repair(ads_db)
    assert found_problems(ads_db) == added_up(ads_db)
    assert {code for code, _ in found_problems(ads_db)} == {"over-budget", "lost-placement"}
