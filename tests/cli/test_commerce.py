"""Tests of the commands `squinney commerce`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.cli.conftest import Squinney

from squinney.commerce import Carts, Catalog, Categories, Inventory, TestGateway
from squinney.mongo.schema import Db

PRICING = {"list": 100, "retail": 90, "currency": "EUR"}


def line(sku: str) -> str:
    """Return a product as a JSON line."""
    return json.dumps({"_id": sku, "type": "Film", "title": sku, "pricing": PRICING})


def test_products_are_imported_and_bad_lines_are_named(squinney: Squinney, ready_db: Db, tmp_path: Path) -> None:
    file = tmp_path / "films.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join([line("a"), "nonsense", line("b")]).encode()))
    done = squinney("commerce", "import", str(file))
    assert (done.returncode, done.stdout.strip()) == (1, "2 imported, 0 replaced, 0 skipped, 1 bad")
    assert done.stderr.startswith("line 2: not JSON")
    again = squinney("commerce", "import", "-", "--json", typed=line("a"))
    assert (again.returncode, json.loads(again.stdout)["skipped"]) == (0, 1)
    missing = squinney("commerce", "import", str(tmp_path / "nothing"))
    assert (missing.returncode, len(missing.stderr.splitlines())) == (2, 1)


def test_stock_is_received_adjusted_and_shown(squinney: Squinney, ready_db: Db) -> None:
    Catalog(ready_db).import_products([line("a")])
    for _ in range(2):
        done = squinney("commerce", "stock", "a", "--receive", "5", "--key", "once")
    assert "received 5, adjusted 0, qty 5" in done.stdout
    done = squinney("commerce", "stock", "a", "--adjust", "-2", "--reason", "broken", "--json")
    assert json.loads(done.stdout)["stock"]["qty"] == 3
    assert squinney("commerce", "stock", "nothing").returncode == 3
    assert squinney("commerce", "stock", "a", "--adjust", "-9", "--reason", "lost").returncode == 5


def test_brackets_and_colons_are_shown_as_they_are(squinney: Squinney, ready_db: Db) -> None:
    Catalog(ready_db).import_products([line("a")])
    reason = "a [/b] :cat: [red]one"
    done = squinney("commerce", "stock", "a", "--receive", "5", "--reason", reason, COLUMNS="200")
    assert (done.returncode, reason in done.stdout) == (0, True), done.stderr
    Categories(ready_db).add("Rock [/] Pop :cat:")
    assert "Rock [/] Pop :cat:  rock-pop-cat" in squinney("commerce", "tree").stdout


def test_an_incomplete_file_is_reported_in_one_line(squinney: Squinney, ready_db: Db, tmp_path: Path) -> None:
    whole = gzip.compress("\n".join(line(f"p{number}") for number in range(500)).encode())
    for name, content in (("cut.gz", whole[:-40]), ("none.gz", b"{}"), ("spoilt.gz", whole[:60] + b"x" * 60)):
        (tmp_path / name).write_bytes(content)
        done = squinney("commerce", "import", str(tmp_path / name))
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_the_tree_is_shown_and_changed(squinney: Squinney, ready_db: Db) -> None:
    Categories(ready_db).add_paths([["Music", "Jazz"], ["Films"]])
    assert squinney("commerce", "move", "jazz", "films").stdout.strip() == "Films > Jazz"
    assert squinney("commerce", "rename", "jazz", "Jazz Films").stdout.strip() == "Films > Jazz Films"
    assert squinney("commerce", "move", "jazz", "/", "--position", "0").stdout.strip() == "Jazz Films"
    assert "Jazz Films" in squinney("commerce", "tree").stdout
    assert [node["slug"] for node in json.loads(squinney("commerce", "tree", "--json").stdout)] == [
        "jazz",
        "music",
        "films",
    ]
    assert squinney("commerce", "move", "films", "films").returncode == 5


def test_carts_are_listed_and_expired(squinney: Squinney, ready_db: Db) -> None:
    Catalog(ready_db).import_products([line("a")])
    squinney("commerce", "stock", "a", "--receive", "5")
    carts = Carts(ready_db, payments=TestGateway(ready_db))
    cart_id = carts.new()["_id"]
    carts.add_item(cart_id, "a", 2)
    assert "1.80 EUR" in squinney("commerce", "carts").stdout
    printed = squinney("commerce", "expire", "--seconds", "1000000").stdout
    assert printed == "expired: 0, orphans returned: 0, payments: nothing to do\n"
    done = squinney("commerce", "expire", "--seconds", "0", "--json")
    assert json.loads(done.stdout)["expired"] == 1
    assert (
        json.loads(squinney("commerce", "carts", "--status", "expired", "--json").stdout)["items"][0]["_id"] == cart_id
    )


def test_products_are_listed_and_shown(squinney: Squinney, ready_db: Db) -> None:
    jazz = Categories(ready_db).add("Jazz")
    details = {"ports": ["HDMI", "USB"]}
    tv = {"_id": "tv", "type": "TV", "title": "A [set]", "pricing": PRICING, "details": details}
    Catalog(ready_db).add({**tv, "category_ids": [jazz["_id"]]})
    Catalog(ready_db).import_products([line("a"), line("b")])
    Catalog(ready_db).patch("b", {"details": {"genre": ["Noir"]}})
    Inventory(ready_db).receive("a", 7)
    listed = squinney("commerce", "products", "--type", "Film", "--limit", "1", COLUMNS="200").stdout
    assert [*map(str.strip, listed.splitlines()[3].split("│"))][1:-1] == ["a", "a", "Film", "0.90 EUR", "7"]
    assert "more: --cursor" in listed
    for options, expected in {
        "--category jazz": ["tv"],
        "--category jazz --type Film": [],
        "--words set": ["tv"],
        "--prefix A": ["a", "tv"],
        "--genre Noir": ["b"],
        "--type Film --sort=-title": ["b", "a"],
    }.items():
        found = json.loads(squinney("commerce", "products", *options.split(), "--json").stdout)
        assert [one["_id"] for one in found["items"]] == expected, options
    assert squinney("commerce", "products", "--category", "jazz", "--words", "set").returncode == 2
    assert json.loads(squinney("commerce", "product", "a", "--json").stdout)["stock"]["qty"] == 7
    shown = squinney("commerce", "product", "tv").stdout
    assert ("tv: A [set]" in shown, "Ports: HDMI, USB" in shown, "Categories: jazz" in shown) == (True, True, True)
    assert squinney("commerce", "product", "nothing").returncode == 3


def test_orders_are_listed_shown_cancelled_and_settled(squinney: Squinney, ready_db: Db) -> None:
    Catalog(ready_db).import_products([line("a")])
    Inventory(ready_db).receive("a", 5)
    carts = Carts(ready_db, payments=TestGateway(ready_db))
    for customer in ("ada", "bob"):
        carts.add_item(cart_id := carts.new(customer=customer)["_id"], "a", 2)
        carts.checkout(cart_id, key="k")
    ids = [one["_id"] for one in json.loads(squinney("commerce", "orders", "--json").stdout)["items"]]
    assert (len(ids), ids[0]) == (2, cart_id)
    first = json.loads(squinney("commerce", "orders", "--limit", "1", "--json").stdout)
    rest = json.loads(squinney("commerce", "orders", "--cursor", first["next"], "--json").stdout)
    assert [one["_id"] for one in first["items"] + rest["items"]] == ids
    assert "ada" not in (bobs := squinney("commerce", "orders", "--customer", "bob", COLUMNS="200").stdout)
    assert (cart_id in bobs, "1.80 EUR" in bobs) == (True, True)
    assert "2 x a a at 0.90 EUR" in squinney("commerce", "order", cart_id).stdout
    assert squinney("commerce", "cancel-order", cart_id).stdout.startswith(f"{cart_id}: cancelled")
    ready_db["commerce.test_charges"].update_many({}, {"$set": {"state": "refunded"}})
    assert squinney("commerce", "settle", f"{ids[1]}:1").stdout.strip() == f"{ids[1]}:1: refunded"
    assert Inventory(ready_db).level("a")["qty"] == 5
    assert squinney("commerce", "order", "nothing").returncode == 3


def test_categories_are_added_shown_and_removed(squinney: Squinney, ready_db: Db) -> None:
    assert squinney("commerce", "add-category", "Music").stdout.strip() == "music: Music"
    jazz = ["Jazz", "--slug", "all-that", "--parent", "music"]
    assert squinney("commerce", "add-category", *jazz).stdout.strip() == "all-that: Jazz"
    assert squinney("commerce", "category", "all-that").stdout.startswith("Music > Jazz")
    assert "all-that: Jazz" in squinney("commerce", "category", "music").stdout
    found = json.loads(squinney("commerce", "category", "music", "--json").stdout)
    assert [child["slug"] for child in found["children"]] == ["all-that"]
    Categories(ready_db).add_paths([["Music", f"Kind {number}"] for number in range(1_001)])
    found = json.loads(squinney("commerce", "category", "music", "--json").stdout)
    assert len({child["slug"] for child in found["children"]}) == 1_002  # more than one page
    assert squinney("commerce", "remove-category", "music").returncode == 5
    assert squinney("commerce", "remove-category", "music", "--children", "cascade").stdout.strip() == "1003 removed"


def test_a_live_key_of_stripe_is_refused_at_the_start(squinney: Squinney, ready_db: Db) -> None:
    for command in (("serve", "--port", "0", "--no-demo"), ("worker",)):
        done = squinney(*command, SQUINNEY_STRIPE_KEY="sk_live_secret")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert "must be a Stripe test key" in done.stderr
        assert "secret" not in done.stdout + done.stderr
