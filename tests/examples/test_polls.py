"""A system of one's own: `examples/polls`, plugged in by an argument and by a setting."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.plugins.shelf import Prepared
from tests.racing import at_once

from polls import COLLECTIONS, AlreadyVoted, PollClosed, Polls, UnknownPoll, find_problems, repair
from polls.queries import QUERIES
from polls.system import SYSTEM
from squinney import assembly
from squinney.errors import Invalid
from squinney.http.access.visitor import SIGNED_IN, Visitor
from squinney.http.site_options import SiteOptions
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.queries import stages
from squinney.mongo.schema import Db
from squinney.service.site import create_site

ROOT = Path(__file__).parents[2]
POLLS = ROOT / "examples" / "polls"
SECRET = b"x" * 32
SPARE = "from squinney.system import System\nSYSTEM = System(__package__, 'Clubs', '', [], [], lambda db, runner: {})"
# What a newcomer makes. Nothing of Squinney's is touched: the other half of this list is the setting.
MADE = {
    *("__init__.py", "documents.py", "errors.py", "polls.py", "queries.py", "repair.py", "system.py"),
    *("surface/__init__.py", "surface/cli.py", "surface/web.py", "surface/templates/index.html"),
}


def test_it_is_one_folder_and_nothing_names_it_elsewhere() -> None:
    assert {str(path.relative_to(POLLS)) for path in POLLS.rglob("*.*") if path.suffix != ".pyc"} == MADE
    source = [path for path in (ROOT / "src").rglob("*.py") if "polls" in path.read_text().lower()]
    assert source == []


@pytest.fixture
def db(prepared: Prepared) -> Db:
    return prepared([*assembly.CORE_COLLECTIONS, *COLLECTIONS])


def test_each_person_votes_once(db: Db) -> None:
    polls = Polls(db)
    poll = polls.open("Tea or coffee?", ["tea", "coffee"])
    polls.vote(poll["_id"], "ann", "tea")
    with pytest.raises(AlreadyVoted):
        polls.vote(poll["_id"], "ann", "coffee")
    at_once(8, lambda number: polls.vote(poll["_id"], f"person {number}", "coffee"))
    assert [option["votes"] for option in polls.get(poll["_id"])["options"]] == [1, 8]
    assert [listed["_id"] for listed in polls.all().items] == [poll["_id"]]
    polls.close(poll["_id"])
    with pytest.raises(PollClosed):
        polls.vote(poll["_id"], "bob", "tea")
    assert list(find_problems(db)) == []


def test_bad_input_is_refused(db: Db) -> None:
    polls = Polls(db)
    poll_id = polls.open("Tea or coffee?", ["tea", "coffee"])["_id"]
    with pytest.raises(Invalid, match="2 to 20 different texts"):
        polls.open("Tea or tea?", ["tea", "tea"])
    with pytest.raises(Invalid, match="tea, coffee"):
        polls.vote(poll_id, "ann", "milk")
    with pytest.raises(UnknownPoll):
        polls.vote("nowhere", "ann", "tea")


def test_wrong_counts_are_found_and_mended(db: Db) -> None:
    polls = Polls(db)
    poll_id = polls.open("Tea or coffee?", ["tea", "coffee"])["_id"]
    polls.vote(poll_id, "ann", "tea")
    db["polls"].update_one({"_id": poll_id}, {"$inc": {"options.0.votes": 5}})
    assert [(problem.code, problem.repairable) for problem in find_problems(db)] == [("miscounted-poll", True)]
    assert repair(db) == {"polls": 1}
    assert polls.get(poll_id)["options"][0]["votes"] == 1
    assert list(find_problems(db)) == []


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_its_queries_have_indexes(db: Db, query: object) -> None:
    Polls(db).open("Tea or coffee?", ["tea", "coffee"])
    assert not stages(query.explain(db)) & {"COLLSCAN", "SORT"}  # type: ignore[attr-defined]


def test_it_is_plugged_in_by_an_argument(prepared: Prepared) -> None:
    """It gets a menu entry, a card and a page, and who has signed in votes there."""
    systems = (*assembly.SYSTEMS, SYSTEM)
    made = assembly.assemble(prepared(assembly.collections(systems)), systems=systems)
    poll = made.services["polls"]["polls"].open("Tea or coffee?", ["tea", "coffee"])
    person = made.services["identity"]["people"].sign_up("ann", "correct horse battery", name="Ann")
    token = made.services["identity"]["sessions"].start(person)
    csrf = Visitor(SECRET, SIGNED_IN + token).csrf
    cookies = {"squinney": SIGNED_IN + token}
    with TestClient(create_site(made, options=SiteOptions(secret=SECRET)), cookies=cookies) as browser:
        assert '<a href="/polls">Polls</a>' in browser.get("/", headers={"accept": "text/html"}).text
        for flash in ("Thank you for your vote.", "This person has already voted"):
            form = {"option": "tea", "csrf": csrf}
            assert flash in browser.post(f"/polls/{poll['_id']}/votes", data=form, headers={"accept": "text/html"}).text
        made.services["polls"]["polls"].close(poll["_id"])
        for number in range(49):
            made.services["polls"]["polls"].open(f"Yes or no, {number}?", ["yes", "no"])
        assert "?cursor=" not in browser.get("/polls").text
        made.services["polls"]["polls"].open("One more?", ["yes", "no"])
        more = re.search(r'href="(\?cursor=[^"]+)"', browser.get("/polls").text)
        assert more
        assert "This poll is closed" in browser.get(f"/polls{more[1]}").text
    assert made.services["polls"]["polls"].get(poll["_id"])["options"][0]["votes"] == 1


def squinney(
    mongod: Embedded, database: str, *arguments: str, systems: str = "all,polls"
) -> subprocess.CompletedProcess[str]:
    settings = {"MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": database, "SQUINNEY_SYSTEMS": systems}
    environment = {**os.environ, **settings, "PYTHONPATH": str(POLLS.parent), "COLUMNS": "200"}
    command = [sys.executable, "-m", "squinney.service.commands.main", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_it_is_plugged_in_by_a_setting(mongod: Embedded, prepared: Prepared) -> None:
    systems = assembly.chosen_systems(["all", "polls"])
    database = prepared(assembly.collections(systems)).name
    asked = squinney(mongod, database, "polls", "open", "Tea or coffee?", "tea", "coffee")
    assert asked.returncode == 0, asked.stderr
    with client_for(mongod.uri) as client:
        Polls(client[database]).vote(asked.stdout.strip(), "ann", "tea")
        client[database]["polls"].update_one({}, {"$set": {"options.0.votes": 7}})
    assert "7  tea" in squinney(mongod, database, "polls", "show", asked.stdout.strip()).stdout
    diagnosis = squinney(mongod, database, "doctor")
    assert "miscounted-poll" in diagnosis.stdout, diagnosis.stderr


def test_a_setting_that_names_no_system_is_one_sentence(mongod: Embedded) -> None:
    done = squinney(mongod, "nothing", "jobs", "list", systems="pols")
    assert (done.returncode, done.stderr) == (
        2,
        "squinney: there is no system pols: Squinney has analytics, ledger, commerce, content, ads, game, social, "
        "identity; one of your own is a module pols.system, found by PYTHONPATH\n",
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "clubs.system must declare SYSTEM, a squinney.system.System"),
        ("SYSTEM = 5", "clubs.system must declare SYSTEM"),
        ("import nosuchthing", "the system clubs cannot be imported: No module named 'nosuchthing'"),
        (
            "from polls.system import SYSTEM",
            "clubs.system.SYSTEM has the package 'polls'; write System(__package__, ...)",
        ),
        (
            "from dataclasses import replace; from polls.system import SYSTEM as polls\n"
            "SYSTEM = replace(polls, package=__package__, path='')",
            "both have the collection polls",
        ),
        (
            "from squinney.mongo.schema import Collection; from squinney.system import System\n"
            "SYSTEM = System(__package__, 'Clubs', '', [Collection('squinney.keys')], [], lambda db, runner: {})",
            "the core and clubs both have the collection squinney.keys",
        ),
    ],
)
def test_a_system_that_cannot_be_added_is_refused_with_the_reason(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is applied: its validator would replace that of the other system's collection."""
    (tmp_path / "clubs").mkdir()
    (tmp_path / "clubs" / "__init__.py").touch()
    (tmp_path / "clubs" / "system.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(Invalid) as refused:
            assembly.chosen_systems(["all", "polls", "clubs"])
    finally:
        for name in ("clubs", "clubs.system"):
            sys.modules.pop(name, None)
    assert message in refused.value.message


def test_two_systems_of_one_name_are_refused(db: Db) -> None:
    with pytest.raises(Invalid, match="polls and polls both have the name polls"):
        assembly.chosen_systems(["polls", "polls"])
    with pytest.raises(Invalid, match="polls and polls both have the name polls"):
        assembly.assemble(db, systems=[SYSTEM, SYSTEM])


def test_a_command_that_misses_a_package_of_its_own_is_not_told_to_install_ours(tmp_path: Path) -> None:
    for name, source in (
        ("__init__", ""),
        ("system", SPARE),
        ("surface/__init__", ""),
        ("surface/cli", "import nosuch"),
    ):
        path = tmp_path / "clubs" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SQUINNEY_SYSTEMS": "clubs"}
    program = [sys.executable, "-m", "squinney.service.commands.start", "clubs"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    cli = tmp_path / "clubs" / "surface" / "cli.py"
    assert done.stderr == f"squinney: No module named 'nosuch': {cli}, line 1, imports it\n"
