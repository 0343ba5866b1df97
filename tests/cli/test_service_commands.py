"""`squinney keys | users | jobs | worker | serve`, as processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from squinney import assembly
from squinney.errors import Invalid
from squinney.identity import Keys, People
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db

Squinney = Any


def test_keys_are_made_listed_and_revoked(squinney: Squinney, ready_db: Db) -> None:
    made = squinney("keys", "create", "--name", "shop", "--scope", "ledger:read", "--days", "30")
    assert made.returncode == 0, made.stderr
    shown = made.stdout.split()[0]
    key = Keys(ready_db).find(shown)
    assert key["scopes"] == ["ledger:read"]
    listed = squinney("keys", "list", "--json")
    assert json.loads(listed.stdout)["items"][0]["name"] == "shop"
    assert shown.split("_", 2)[2] not in listed.stdout
    assert squinney("keys", "revoke", key["_id"]).returncode == 0
    assert "revoked" in squinney("keys", "list").stdout
    assert squinney("keys", "revoke", "nothing").returncode == 3
    assert squinney("keys", "create", "--name", "shop", "--scope", "ledger").returncode == 2
    misspelt = squinney("keys", "create", "--name", "shop", "--scope", "leger:read")
    assert (misspelt.returncode, misspelt.stderr) == (
        2,
        "squinney: scope leger:read: there is no system of this name\n",
    )


def test_people_are_added_and_changed(squinney: Squinney, ready_db: Db) -> None:
    password = "correct horse battery"
    added = squinney("users", "add", "ada", "--role", "editor", typed=f"{password}\n{password}\n")
    assert added.returncode == 0, added.stderr
    assert password not in added.stdout + added.stderr
    people = People(ready_db)
    assert people.sign_in("ada", password)["role"] == "editor"
    assert squinney("users", "role", "ada", "admin").returncode == 0
    assert people.by_login("ada")["role"] == "admin"
    assert squinney("users", "disable", "ada").returncode == 0
    assert json.loads(squinney("users", "list", "--json").stdout)["items"][0]["disabled_at"]
    assert squinney("users", "enable", "ada").returncode == 0
    assert squinney("users", "password", "ada", "--password", "another password").returncode == 0
    assert people.sign_in("ada", "another password")
    assert "/welcome?token=" in squinney("users", "invite", "--role", "editor").stdout
    assert squinney("users", "role", "nobody", "admin").returncode == 3
    assert squinney("users", "add", "ada", "--password", "another password").returncode == 5


def test_jobs_are_listed_and_run(squinney: Squinney, ready_db: Db) -> None:
    name = assembly.jobs()[0].name
    listed = squinney("jobs", "list").stdout
    assert "never run" in listed
    assert [job.name for job in assembly.jobs() if job.name not in listed] == [], "whole, for `jobs run`"
    ran = squinney("jobs", "run", name)
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(rf"{name}: (nothing to do|ended: \d+)\n", ran.stdout), "other tests kill processes, too"
    found = json.loads(squinney("jobs", "list", "--json").stdout)
    assert next(job for job in found if job["name"] == name)["last"]["outcome"] == "ok"
    assert squinney("jobs", "run", "nothing").returncode == 3


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "squinney.service.commands.main", *arguments],
        env={**os.environ, "COLUMNS": "200", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_worker_runs_the_jobs_and_stops_when_told(mongod: Embedded, ready_db: Db) -> None:
    with running("worker", MONGODB_URI=mongod.uri, SQUINNEY_DATABASE=ready_db.name) as worker:
        until = time.monotonic() + 120
        while ready_db["squinney.jobs"].count_documents({"runs": {"$gte": 1}}) != len(assembly.jobs()):
            assert time.monotonic() < until
            assert worker.poll() is None
            time.sleep(0.1)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
    assert ready_db["squinney.leases"].count_documents({"token": {"$exists": True}}) == 0, "released"


def test_ctrl_c_ends_a_proof_without_output_of_its_workers(mongod: Embedded, db: Db) -> None:
    def proofs() -> list[str]:
        return [name for name in db.client.list_database_names() if name.startswith("prove_ledger")]

    before = proofs()
    with running("prove", "ledger", "--json", MONGODB_URI=mongod.uri) as proof:
        until = time.monotonic() + 120
        while not [
            name for name in proofs() if name not in before and "intents" in db.client[name].list_collection_names()
        ]:
            assert time.monotonic() < until
            assert proof.poll() is None
            time.sleep(0.1)
        os.killpg(proof.pid, signal.SIGINT)  # as a terminal does
        said = proof.communicate(timeout=120)[1]
        assert (proof.returncode, said) == (130, "")


def test_serve_refuses_a_uri_without_a_secret(mongod: Embedded, db: Db) -> None:
    environment = {"MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": db.name, "PORT": "0"}
    for secret, told in (("", "must be set"), ("short", "at least 32")):
        with running("serve", **environment, SQUINNEY_SECRET=secret) as served:
            assert served.wait(120) == 2
            assert served.stderr
            assert told in served.stderr.read()


SECRET = "a secret that is long enough for anybody"


def test_serve_prints_the_admins_link_once_and_stops_gracefully(mongod: Embedded, ready_db: Db) -> None:
    environment = {"MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": ready_db.name, "PORT": "0", "SQUINNEY_LOG": "json"}
    with running("serve", "--no-demo", **environment, SQUINNEY_SECRET=SECRET) as served:
        assert served.stdout
        link = re.search(r"http://\S+", served.stdout.readline())[0]  # type: ignore[index]
        base = re.search(r"http://\S+", served.stdout.readline())[0]  # type: ignore[index]
        with httpx.Client(follow_redirects=True) as browser:
            page = browser.get(link)
            csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)[1]  # type: ignore[index]
            token = link.partition("token=")[2]
            form = {"csrf": csrf, "token": token, "login": "boss", "password": "correct horse battery"}
            assert "Admin" in browser.post(f"{base}/welcome", data=form).text
            assert browser.get(f"{base}/admin/jobs").status_code == 200
            assert browser.get(link, headers={"Accept": "text/html"}).status_code == 404, "used up"
            assert browser.get(f"{base}/metrics").text.count("squinney_requests_total") > 2
        served.send_signal(signal.SIGTERM)
        served.wait(120)
        assert served.stderr
        logged = served.stderr.read()
    lines = [json.loads(line) for line in logged.splitlines() if line.startswith("{")]
    requests = [line for line in lines if line["logger"] == "squinney.requests"]
    assert {line["path"] for line in requests} >= {"/welcome", "/admin/jobs"}
    assert all(line["request_id"] for line in requests)
    assert not [secret for secret in (token, csrf, "correct horse battery", SECRET) if secret in logged]
    assert "Traceback" not in logged


def test_the_embedded_secret_is_made_once_and_private(tmp_path: Path) -> None:
    from squinney.service.secret import secrets_for
    from squinney.settings import Settings

    first = secrets_for(Settings(), tmp_path)
    assert len(first[0]) >= 32
    assert secrets_for(Settings(), tmp_path) == first
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]
    (tmp_path / "secret").write_text("")  # as a power cut could leave it: anyone could sign with it
    with pytest.raises(Invalid, match="at least 32 characters"):
        secrets_for(Settings(), tmp_path)


@pytest.mark.parametrize("command", [["keys"], ["users"], ["jobs"]])
def test_groups_explain_themselves(squinney: Squinney, command: list[str]) -> None:
    assert "Usage" in squinney(*command).stdout


def test_a_reset_of_the_demo_data_is_confirmed(squinney: Squinney, ready_db: Db) -> None:
    refused = squinney("demo", "reset")
    assert (refused.returncode, "confirm the reset with --yes" in refused.stderr) == (2, True)
    assert squinney("demo", "again").stderr == "squinney: the action must be load or reset\n"


def test_serve_and_worker_change_nothing_on_a_server_of_ones_own(mongod: Embedded, db: Db, squinney: Squinney) -> None:
    for command in (("serve", "--port", "0"), ("worker",)):
        refused = squinney(*command)
        assert (refused.returncode, refused.stderr.count("\n")) == (5, 1), refused.stderr
        assert "missing-collection" in refused.stderr
        assert "squinney indexes --apply" in refused.stderr
    assert db.list_collection_names() == []
    assert squinney("indexes", "--apply").returncode == 0
    db["commerce.categories"].drop_index("slug_1")
    db["ledger.entries"].drop_index("account_id_1_order_-1__id_-1")
    assert "missing-index" in squinney("worker").stderr, "a unique index"
    assert squinney("migrate", "commerce").returncode == 0, "it creates what is missing"
    environment = {"MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": db.name, "PORT": "0"}
    with running("serve", **environment, SQUINNEY_SECRET=SECRET) as served:
        assert served.stdout
        assert "first admin" in served.stdout.readline()
        served.send_signal(signal.SIGTERM)
        assert served.wait(120) == 0
        assert served.stderr
        assert (
            "ledger.entries: missing-index account_id_1_order_-1__id_-1; `squinney indexes --apply`"
            in served.stderr.read()
        )
    assert "account_id_1_order_-1__id_-1" not in db["ledger.entries"].index_information()
    assert db["commerce.products"].find_one() is None, "no demo data either"
