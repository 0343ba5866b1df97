"""Each system's `repair` under the sweep: whatever it was doing when it died, the next run does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from squinney import assembly
from squinney.analytics import Hits
from squinney.content import Nodes
from squinney.identity import People
from squinney.ledger import Accounts
from squinney.mongo.schema import Db
from squinney.social import Network
from squinney.testing import Case
from tests.crash.cases_ads import _placed
from tests.crash.cases_analytics import START
from tests.crash.cases_game import _things
from tests.crash.shop import shop

ADA: Any = {"_id": "ada", "name": "Ada"}


def _wrong_balances(db: Db) -> None:
    for opening in (5, 7):
        Accounts(db).open("EUR", opening)
    _spoil(db, "ledger.accounts", {"balance": 99})


def _wrong_stocks(db: Db) -> None:
    shop(db)
    _spoil(db, "commerce.stock", {"qty": 3})


def _wrong_children(db: Db) -> None:
    for slug in ("a", "b"):
        Nodes(db).create(None, slug, "folder", slug, ADA)
    _spoil(db, "content.nodes", {"metadata.num_children": 3})


def _logins_of_nobody(db: Db) -> None:
    for login in ("ada", "ben"):
        People(db).sign_up(login, "a long password")
    db["identity.people"].delete_many({})


def _wrong_days(db: Db) -> None:
    for page in ("/a", "/b"):
        Hits(db).record("s", page, START)
    _spoil(db, "analytics.hits_daily", {"total": 99})


def _wrong_sums(db: Db) -> None:
    _placed(db)
    _spoil(db, "ads.budgets", {"spent": 5})


def _wrong_lists(db: Db) -> None:
    _things("sack", "hat")(db)
    _spoil(db, "game.characters", {"inventory": []})


def _torn_edges(db: Db) -> None:
    network = Network(db)
    list(network.load([("ann", "bob"), ("bob", "cid")]))
    network.post("ann", "status", {"text": "hello"}, ["*public*"])
    db["social.edges"].delete_many({"_id.owner": "bob"})
    _spoil(db, "social.posts", {"comment_count": 3})


def _spoil(db: Db, collection: str, change: dict[str, Any]) -> None:
    """A change that a validator would refuse."""
    db[collection].update_many({}, {"$set": change}, bypass_document_validation=True)


def _repair(system: str) -> Callable[[Db], object]:
    found = assembly.system_named(system)
    assert found
    return found.repair


def _act(system: str, db: Db, state: Any) -> None:
    assert sum(1 for _ in assembly.system_named(system).find_problems(db)) > 0  # type: ignore[union-attr]
    _repair(system)(db)


def _nothing_is_left_to_do(system: str, db: Db, state: Any) -> None:
    assert not _repair(system)(db)


def _case(system: str, damage: Callable[[Db], None], covers: Sequence[str] = ()) -> Case:
    """Its `age` is the next run: that is what mends, as its docstring says."""
    check = partial(_nothing_is_left_to_do, system)
    return Case(f"{system}.repair", system, damage, partial(_act, system), check, covers, _repair(system))


CASES = [
    _case("ledger", _wrong_balances),
    _case("commerce", _wrong_stocks),
    _case("content", _wrong_children),
    _case("identity", _logins_of_nobody),
    _case("analytics", _wrong_days),
    _case("ads", _wrong_sums),
    _case("game", _wrong_lists),
    _case("social", _torn_edges),
]
