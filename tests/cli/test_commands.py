"""The commands, as a person types them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from squinney import __version__, assembly
from squinney.cli.printing import console, print_line, print_page
from squinney.ledger import COLLECTIONS, proof
from squinney.mongo import schema
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page
from squinney.service.commands.main import ROLES
from squinney.service.proving.worker import WorkerTask, run
from squinney.service.proving.workers import processes


def test_the_ledger_from_the_command_line(squinney: Any, ready_db: Db) -> None:
    ada = json.loads(squinney("ledger", "open", "EUR", "1000", "--name", "Ada", "--json").stdout)
    ben = json.loads(squinney("ledger", "open", "EUR", "--name", "Ben", "--json").stdout)
    moved = squinney("ledger", "transfer", ada["_id"], ben["_id"], "250", "--memo", "tea", "--key", "k")
    assert "moved 2.50 EUR" in moved.stdout
    again = squinney("ledger", "transfer", ada["_id"], ben["_id"], "250", "--memo", "tea", "--key", "k")
    assert again.stdout == moved.stdout
    assert "7.50 EUR  Ada" in squinney("ledger", "show", ada["_id"]).stdout
    assert re.search(r"-2.50 EUR\W+7.50 EUR\W+tea", squinney("ledger", "statement", ada["_id"]).stdout)
    assert "Ben" in squinney("ledger", "list").stdout
    assert squinney("ledger", "total", "EUR").stdout == "10.00 EUR\n"


def test_transfers_of_a_file_are_made_and_refused_ones_named_by_line(
    squinney: Any, ready_db: Db, tmp_path: Path
) -> None:
    ada = json.loads(squinney("ledger", "open", "EUR", "1000", "--json").stdout)["_id"]
    ben = json.loads(squinney("ledger", "open", "EUR", "--json").stdout)["_id"]
    file = tmp_path / "payroll.csv"
    file.write_text(f'src,dst,amount,memo\n{ada},{ben},600,"May,\nand June"\n{ada},{ben},401,\n{ada},{ben},400,July\n')
    for _ in range(2):
        done = squinney("ledger", "transfer-many", str(file), "--key", "payroll")
        assert (done.returncode, done.stdout) == (1, "2 made, 1 refused\n")
        assert done.stderr == "line 4: the balance of the account is too low (insufficient-funds)\n"
    assert "10.00 EUR" in squinney("ledger", "show", ben).stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("src,dst,amount\na,b,1\na,b,12.50\n", "line 3: amount must be a whole number"),
        ("src,dst,amount\na,b\n", "line 2: amount must be a whole number"),
        ("src,dst,amount,note\na,b,1,x\n", "line 2: must not have the field note"),
        ("src,dst,amount\na,b,1,x,y\n", "line 2: must not have the field"),
        ("from,to,amount\n", "must begin with the line src,dst,amount"),
        ("src,dst,amount\n" + "a,b,1\n" * 1_001, "transfers must have at most 1000 entries"),
        ("\x00", "payroll.csv"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_file_of_transfers_is_refused_in_a_sentence(
    squinney: Any, ready_db: Db, tmp_path: Path, text: str | None, said: str
) -> None:
    file = tmp_path / "payroll.csv"
    if text is not None:
        file.write_text(text)
    result = squinney("ledger", "transfer-many", str(file))
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


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
        ({"errorCode": 13}, 70, f"MongoDB refused the operation: Failing command via 'failCommand' failpoint; {ROLES}"),
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
    result = squinney("ledger", "list", SQUINNEY_DATABASE="a/b")
    assert result.returncode == 2
    assert "SQUINNEY_DATABASE" in result.stderr


def test_indexes_says_what_differs(squinney: Any, ready_db: Db) -> None:
    assert squinney("indexes").returncode == 0
    ready_db["ledger.accounts"].drop_index("currency_1")
    result = squinney("indexes", "--json")
    assert result.returncode == 1
    assert json.loads(result.stdout)["drift"] == ["ledger.accounts: missing-index currency_1"]
    assert squinney("indexes", "--apply").returncode == 0


def test_indexes_with_other_options_are_made_anew_when_asked(squinney: Any, ready_db: Db) -> None:
    ready_db["ledger.accounts"].drop_index("currency_1")
    ready_db["ledger.accounts"].create_index("currency", sparse=True)
    refused = squinney("indexes", "--apply")
    assert refused.returncode != 0
    assert "--rebuild" in refused.stderr
    assert squinney("indexes", "--rebuild").returncode == 0
    assert "sparse" not in ready_db["ledger.accounts"].index_information()["currency_1"]


def test_a_worker_whose_engine_is_dead_exits_and_drops_its_database(mongod: Embedded, db: Db) -> None:
    schema.apply(db, [*assembly.CORE_COLLECTIONS, *COLLECTIONS])
    proof.prepare(db)
    told, engine = processes.Pipe(duplex=False)
    _, reported = processes.Pipe(duplex=False)
    arguments = (WorkerTask("ledger", mongod.uri, db.name), 1, told, reported)
    worker = processes.Process(target=run, args=arguments, daemon=True)
    worker.start()
    told.close()
    engine.close()
    worker.join(120)
    assert worker.exitcode == 1
    assert db.name not in db.client.list_database_names()


def test_prove_knows_what_it_can_prove(squinney: Any) -> None:
    result = squinney("prove", "nothing")
    assert result.returncode == 3
    assert "ledger" in result.stderr


def test_the_shell_has_all_services(squinney: Any, ready_db: Db) -> None:
    result = squinney("shell", typed="print(accounts.open('EUR', 700)['balance'], db.name)\n")
    assert f"700 {ready_db.name}" in result.stdout
    assert ready_db["ledger.accounts"].count_documents({"balance": 700}) == 1


def test_the_version(squinney: Any) -> None:
    assert squinney("--version").stdout == f"squinney {__version__}\n"


@pytest.mark.parametrize(("typed", "offered"), [("squinney led", "ledger"), ("squinney analytics to", "top")])
def test_the_shell_completes_commands(squinney: Any, typed: str, offered: str) -> None:
    position = str(len(typed.split()) - 1)
    result = squinney(_SQUINNEY_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=position)
    assert result.stdout.split() == [offered], result.stderr
