"""The commands, as a person types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.sizes import a_tenth_of, heavy

from squinney import __version__
from squinney.http.commands import console, print_line, print_page
from squinney.ledger import proof
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page


def test_the_ledger_from_the_command_line(squinney: Any, ready_db: Db) -> None:
    ada = json.loads(squinney("ledger", "open", "EUR", "1000", "--name", "Ada", "--json").stdout)
    ben = json.loads(squinney("ledger", "open", "EUR", "--name", "Ben", "--json").stdout)
    moved = squinney("ledger", "transfer", ada["_id"], ben["_id"], "250", "--memo", "tea", "--key", "k")
    assert "moved 2.50 EUR" in moved.stdout
    again = squinney("ledger", "transfer", ada["_id"], ben["_id"], "250", "--memo", "tea", "--key", "k")
    assert again.stdout == moved.stdout
    assert "7.50 EUR  Ada" in squinney("ledger", "show", ada["_id"]).stdout
    assert "tea" in squinney("ledger", "statement", ben["_id"]).stdout
    assert "Ben" in squinney("ledger", "list").stdout
    assert squinney("ledger", "total", "EUR").stdout == "10.00 EUR\n"


def test_stored_text_cannot_control_the_terminal() -> None:
    with console.capture() as shown:
        print_line("a\x1b[2J\x07\rb [red] é\u2028")
        print_page(Page(["n\x1b]0;title\x9bm"], None), False, ["name"], lambda name: [name])
    assert "a [2J  b [red] é" in shown.get()
    assert all(letter.isprintable() or letter == "\n" for letter in shown.get())


def test_an_error_is_one_sentence_and_a_code(squinney: Any, ready_db: Db) -> None:
    ada = json.loads(squinney("ledger", "open", "EUR", "1000", "--json").stdout)["_id"]
    ben = json.loads(squinney("ledger", "open", "EUR", "--json").stdout)["_id"]
    for arguments, code, said in [
        (["transfer", ada, ben, "5000"], 5, "the balance of the account is too low"),
        (["show", "nobody"], 3, "there is no account nobody"),
        (["transfer", ada, ada, "1"], 2, "src and dst must be different accounts"),
        (["close", ada], 5, "only an account with a balance of zero"),
    ]:
        result = squinney("ledger", *arguments)
        assert result.returncode == code
        assert said in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_usage_error_shows_no_traceback(squinney: Any) -> None:
    for arguments, said in [
        (["nosuch"], "No such command 'nosuch'"),
        (["ledger", "list", "--limit", "many"], "--limit"),
        (["ledger", "list", "--lmit", "5"], "No such option"),
        (["ledger", "transfer", "a"], "Missing argument"),
    ]:
        result = squinney(*arguments)
        assert result.returncode == 2, result.stderr
        assert said in result.stderr
        assert "Traceback" not in result.stderr
    assert squinney("ledger").returncode == 2
    assert "Traceback" not in squinney("ledger").stderr


def test_a_server_that_is_away_is_one_sentence(squinney: Any) -> None:
    result = squinney("ledger", "list", MONGODB_URI="mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200")
    assert result.returncode == 7
    assert result.stderr.startswith("squinney: MongoDB")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        ({"errorCode": 13}, 1, "MongoDB refused the operation: Failing command via 'failCommand' failpoint"),
        ({"closeConnection": True}, 7, "MongoDB cannot be reached, or is too slow"),
    ],
)
def test_what_mongodb_refuses_is_one_sentence(
    squinney: Any, ready_db: Db, own_mongod: Embedded, failing: Any, failure: Any, code: int, said: str
) -> None:
    with failing(["listCollections"], **failure):
        result = squinney("ledger", "list", MONGODB_URI=own_mongod.uri)
    assert (result.returncode, result.stderr) == (code, f"squinney: {said}\n")


def test_a_bad_setting_names_its_variable(squinney: Any) -> None:
    result = squinney("ledger", "list", SQUINNEY_TRANSACTIONS="sometimes")
    assert result.returncode == 2
    assert "SQUINNEY_TRANSACTIONS" in result.stderr


def test_indexes_says_what_differs(squinney: Any, ready_db: Db) -> None:
    assert squinney("indexes").returncode == 0
    ready_db["accounts"].drop_index("currency_1")
    result = squinney("indexes", "--json")
    assert result.returncode == 1
    assert json.loads(result.stdout)["drift"] == ["accounts: missing-index currency_1"]
    assert squinney("indexes", "--apply").returncode == 0


def test_indexes_with_other_options_are_made_anew_when_asked(squinney: Any, ready_db: Db) -> None:
    ready_db["accounts"].drop_index("currency_1")
    ready_db["accounts"].create_index("currency", sparse=True)
    refused = squinney("indexes", "--apply")
    assert refused.returncode != 0
    assert "--rebuild" in refused.stderr
    assert squinney("indexes", "--rebuild").returncode == 0
    assert "sparse" not in ready_db["accounts"].index_information()["currency_1"]


@heavy
def test_prove_holds_every_promise(squinney: Any) -> None:
    operations = a_tenth_of(5_000)
    result = squinney(
        *("prove", "ledger", "--operations", str(operations)),
        *("--seconds", "120", "--kill-every", "2", "--workers", "2", "--json"),
    )
    assert result.stdout, result.stderr
    figures = json.loads(result.stdout)
    assert result.returncode == 0, figures
    assert figures["operations"] >= operations
    assert figures["kills"] >= 1
    assert all(figures["promises"].values())


def test_a_worker_exits_if_its_parent_died_before_it_ran(mongod: Embedded, ready_db: Db) -> None:
    proof.prepare(ready_db)
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    worker = [sys.executable, "-m", "squinney.service.commands.prove_worker", "ledger", "native", "1", str(gone.pid)]
    environment = {**os.environ, "MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": ready_db.name}
    assert subprocess.run(worker, env=environment, timeout=60, check=False).returncode == 1


def test_prove_knows_what_it_can_prove(squinney: Any) -> None:
    result = squinney("prove", "nothing")
    assert result.returncode == 3
    assert "ledger" in result.stderr


def test_the_shell_has_all_services(squinney: Any, ready_db: Db) -> None:
    result = squinney("shell", typed="print(accounts.open('EUR', 700)['balance'], db.name)\n")
    assert f"700 {ready_db.name}" in result.stdout
    assert ready_db["accounts"].count_documents({"balance": 700}) == 1


def test_the_version(squinney: Any) -> None:
    assert squinney("--version").stdout == f"squinney {__version__}\n"


@pytest.mark.parametrize(("typed", "offered"), [("squinney led", "ledger"), ("squinney analytics to", "top")])
def test_the_shell_completes_commands(squinney: Any, typed: str, offered: str) -> None:
    position = str(len(typed.split()) - 1)
    result = squinney(_SQUINNEY_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=position)
    assert result.stdout.split() == [offered], result.stderr
