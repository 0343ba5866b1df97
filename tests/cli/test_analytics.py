"""The commands of `squinney analytics`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.systems.analytics.conftest import stored_events

from squinney.analytics import Hits
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db


def line(second: int, path: str = "/", size: int = 100) -> str:
    """A line of the combined format."""
    at = f"17/May/2015:10:{second // 60:02}:{second % 60:02} +0000"
    return f'203.0.113.{second % 9} - - [{at}] "GET {path} HTTP/1.1" 200 {size} "-" "test"\n'


RANGE = ["--start", "2015-05-17", "--end", "2015-05-18"]


def test_a_log_from_import_to_roll_up(squinney: Any, db: Db, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("".join(line(n, f"/{n % 3}") for n in range(300)) + "garbage\n")

    first = squinney("analytics", "import", str(path), "--site", "s", "--hits")
    assert "access.log: 301 lines, 300 stored, 1 rejected" in first.stdout, first.stderr
    again = squinney("analytics", "import", str(path), "--site", "s", "--hits")
    assert "0 lines, 0 stored, 0 rejected (all of it was imported before)" in again.stdout
    assert len(stored_events(db)) == 300

    source = json.loads(squinney("analytics", "imports", "--json").stdout)["items"][0]["_id"]
    assert "line 301: not the combined format" in squinney("analytics", "rejects", source).stdout
    mistyped = squinney("analytics", "rejects", source[:-1])
    assert (mistyped.returncode, mistyped.stderr.count("nothing was imported under")) == (3, 1)
    top = json.loads(squinney("analytics", "top", "--site", "s", *RANGE, "--json").stdout)
    assert top == [{"page": f"/{n}", "hits": 100} for n in range(3)]
    hours = squinney("analytics", "series", "/1", "--site", "s", "--by", "hour", *RANGE).stdout.splitlines()
    assert len(hours) == 24
    assert hours[10].split() == ["2015-05-17", "10:00", "UTC", "100"]

    assert "1 hourly, 1 daily, 1 weekly, 1 monthly, 1 yearly" in squinney("analytics", "rollup").stdout
    assert squinney("analytics", "verify").stdout == "rollups: 0 buckets differ from the events\n"
    db["analytics.rollups_daily"].update_one({}, {"$inc": {"value.total": 1}})
    wrong = squinney("analytics", "verify", "--no-run")
    assert wrong.returncode == 1
    assert "rollups: 1 buckets differ" in wrong.stdout
    assert "sessions changed, of 9 hosts" in squinney("analytics", "sessions").stdout

    days = ("--from", "2015-05-17", "--to", "2015-05-17", "--robots", "in")
    shown = squinney("analytics", "report-site", "s", "--time-zone", "Asia/Kolkata", "--own-host", "www.s.example")
    assert shown.stdout == "s: days in Asia/Kolkata; own hosts: s.example\n"
    report = json.loads(squinney("analytics", "report", *days, "--json").stdout)
    assert (report["totals"]["views"], report["totals"]["visitors"], report["time_zone"]) == (300, 9, "Asia/Kolkata")
    assert "300  page views" in squinney("analytics", "report", *days).stdout
    one = squinney("analytics", "report", "pages", *days, "--filter", "page=/1", "--csv").stdout
    assert one.splitlines() == ["page,visitors,views,bytes", "/1,3,100,10000"]
    funnel = json.loads(squinney("analytics", "funnel", "/0", "/1", *days, "--json").stdout)
    assert (funnel["visits"], [step["visits"] for step in funnel["steps"]]) == (9, [3, 0])
    assert squinney("analytics", "now").stdout == "0 on the site\n"
    assert squinney("analytics", "goal", "first", "/0", "/2*").stdout == "first: /0, /2*\n"
    goals = json.loads(squinney("analytics", "goals", *days, "--json").stdout)
    assert (goals["visits"], goals["goals"][0]["visits"]) == (9, 6)
    assert " 66.7%  first (/0, /2*)" in squinney("analytics", "goals", *days).stdout
    assert squinney("analytics", "goal", "first", "/0", "--remove").returncode == 2
    assert squinney("analytics", "goal", "first", "--remove").stdout == "the goal first is removed\n"
    shared = json.loads(squinney("analytics", "share", "s", "--name", "Ann", "--days", "3", "--json").stdout)
    assert "/analytics/shared?token=" in shared["address"]
    assert shared["_id"] in squinney("analytics", "shares", "--site", "s").stdout
    assert squinney("analytics", "shares", "--revoke", shared["_id"]).stdout == f"{shared['_id']} is revoked\n"
    assert squinney("analytics", "shares").stdout == "no links\n"
    assert squinney("analytics", "report-site", "s", "--private").stdout.endswith("; private\n")
    hosts = squinney("analytics", "hosts", *days[:4], "--limit", "1").stdout.splitlines()
    assert hosts[1].split() == ["34", "34", "2015-05-17", "10:04", "203.0.113.0"]
    as_csv = squinney("analytics", "hosts", *days[:4], "--limit", "1", "--csv").stdout.splitlines()
    assert as_csv[1] == "203.0.113.0,34,34,3400,2015-05-17T10:04:57+00:00"


def test_site_is_optional_only_if_there_is_one(squinney: Any, db: Db) -> None:
    assert squinney("analytics", "top").stdout == "no hits yet\n"
    hits = Hits(db)
    hits.record("s", "/a", datetime(2015, 5, 17, 10, tzinfo=UTC), 7)
    assert squinney("analytics", "top", *RANGE).stdout.split() == ["7", "/a"]
    assert squinney("analytics", "series", "/a", *RANGE).stdout.split()[-1] == "7"
    assert squinney("analytics", "top").stdout == "no hits of s in this time; the last ones were on 2015-05-17\n"
    assert squinney("analytics", "top", "--site", "x", *RANGE).stdout == "no hits of 'x'; sites with hits: s\n"
    hits.record("other", "/a", datetime(2015, 5, 17, 10, tzinfo=UTC))
    for command in (["top"], ["series", "/a"]):
        refused = squinney("analytics", *command, *RANGE)
        assert (refused.returncode, refused.stderr) == (2, "squinney: choose one of the sites with --site: other, s\n")


def test_source_allows_only_one_log(squinney: Any, db: Db, tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / os.fsdecode(b"caf\xe9.log")]
    for number, path in enumerate(logs):
        path.write_text("".join(line(n, f"/{number}") for n in range(3)))
    refused = squinney("analytics", "import", *map(str, logs), "--source", "web")
    assert refused.returncode != 0
    assert "one by one" in refused.stderr
    assert len(stored_events(db)) == 0
    assert r"caf\xe9.log: 3 lines, 3 stored" in squinney("analytics", "import", *map(str, logs)).stdout
    assert len(stored_events(db)) == 6


def test_a_log_in_an_unknown_format(squinney: Any, db: Db, tmp_path: Path) -> None:
    own, known = tmp_path / "own.log", tmp_path / "access.log"
    own.write_text('{"when": "2015-05-17T10:00:00Z", "uri": "/x"}\n')
    known.write_text(line(0))
    refused = squinney("analytics", "import", str(own), str(known))
    assert refused.returncode == 2
    assert "own.log: none of its lines is an event; tried combined, " in refused.stderr
    assert "JSON, but it has no time" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert "own.log: 1 lines, 0 stored, 1 rejected" in refused.stdout
    assert "access.log: 1 lines, 1 stored, 0 rejected" in refused.stdout
    again = squinney("analytics", "import", str(own), "--map", "time=when", "--map", "path=uri")
    assert (again.returncode, "own.log: 1 lines, 1 stored, 0 rejected" in again.stdout) == (0, True)
    assert sorted(event["path"] for event in stored_events(db)) == ["/", "/x"]


def test_standard_input_and_other_formats(squinney: Any, db: Db) -> None:
    entry = '{"when": "2015-05-17T10:00:00Z", "uri": "/x"}\n'
    done = squinney(
        "analytics", "import", "-", "--format", "json", "--map", "time=when", "--map", "path=uri", typed=entry
    )
    assert "standard input: 1 lines, 1 stored" in done.stdout, done.stderr
    assert stored_events(db)[0]["path"] == "/x"


def test_bad_input_is_one_sentence(squinney: Any, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)) * 20)
    for arguments, said in [
        (["import", "/no/such/file"], "No such file"),
        (["import", str(binary)], "not a log"),
        (["import", str(binary), "--format", "iis"], "format must be one of"),
        (["retention", "burn"], "strategy must be one of"),
        (["retention", "--keep-days", "30"], "needs a strategy"),
        (["retention", "ttl", "--keep-days", "nan"], "keep-days must be"),
        (["retention", "ttl", "--keep-days", "inf"], "keep-days must be"),
        (["retention", "ttl", "--keep-days", "0"], "keep-days must be"),
        (["retention", "ttl", "--keep-days", "-3"], "keep-days must be"),
        (["retention", "ttl", "--keep-days", "0.0001"], "--keep-days must be at least 0.00069, a minute"),
        (["series", "/", "--by", "century"], "by must be"),
        (["advise-shard-key"], "no events"),
        (["rollup", "--time-zone", "Mars"], "no time zone"),
    ]:
        result = squinney("analytics", *arguments)
        assert result.returncode == 2, result
        assert said in result.stderr
        assert result.stderr.count("\n") == 1


def test_sessions_of_a_year_in_the_requested_time_zone(squinney: Any, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(line(0) + line(60))
    squinney("analytics", "import", str(path))
    asked = squinney("analytics", "sessions", "--time-zone", "Europe/Berlin", "--json")
    assert {row["year"] for row in json.loads(asked.stdout)["longest"]} == {2015}


def test_sessions_in_a_zone_with_an_offset_of_half_an_hour(squinney: Any, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(line(0) + line(60))
    squinney("analytics", "import", str(path))
    told = squinney("analytics", "sessions", "--time-zone", "Asia/Kolkata")
    assert told.returncode == 2
    assert 'try finest="quarter"' in told.stderr
    asked = squinney("analytics", "sessions", "--time-zone", "Asia/Kolkata", "--finest", "quarter", "--json")
    assert {row["year"] for row in json.loads(asked.stdout)["longest"]} == {2015}, asked.stderr


def test_a_roll_up_is_stopped_by_its_name(squinney: Any, db: Db) -> None:
    squinney("analytics", "rollup", "--name", "by_path")
    mistyped = squinney("analytics", "rollup", "--name", "by_pth", "--stop")
    assert mistyped.returncode != 0
    assert "there is no roll-up with the name by_pth" in mistyped.stderr
    assert "by_pth.daily" not in db.list_collection_names()
    stopped = squinney("analytics", "rollup", "--name", "by_path", "--stop", "--json")
    assert json.loads(stopped.stdout) == {"stopped": "by_path"}
    assert squinney("analytics", "rollup", "--name", "by_path", "--stop").returncode != 0


def test_retention_and_advice(squinney: Any, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("".join(line(n, f"/{n % 150}") for n in range(900)))
    squinney("analytics", "import", str(path))
    assert "strategy: rotate, unit: month" in squinney("analytics", "retention", "rotate", "--unit", "month").stdout
    assert "strategy: keep" in squinney("analytics", "retention", "keep").stdout
    advice = json.loads(squinney("analytics", "advise-shard-key", "from", "_id:hashed", "--json").stdout)
    assert [one["verdict"] for one in advice] == ["poor", "writes only"]
    assert "it follows time" in squinney("analytics", "advise-shard-key").stdout.replace("\n", " ")


def following(mongod: Embedded, db: Db, path: Path) -> subprocess.Popen[str]:
    """Start to follow a log."""
    module = ["-m", "squinney.service.commands.main"]
    return subprocess.Popen(
        [sys.executable, *module, "analytics", "follow", str(path), "--hits", "--poll", "0.05"],
        env={**os.environ, "MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": db.name},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_follow_after_the_known_log_is_gone(mongod: Embedded, db: Db, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(line(0))
    first = following(mongod, db, path)
    assert first.stdout is not None
    assert "1 stored" in first.stdout.readline()
    first.kill()
    first.communicate()
    path.with_name("access.log.1").write_text(line(1) + line(2))
    path.write_text(line(3))
    again = following(mongod, db, path)
    assert again.stdout is not None
    assert ["2 stored" in again.stdout.readline(), "3 stored" in again.stdout.readline()] == [True, True]
    time.sleep(0.1)
    again.send_signal(signal.SIGTERM)
    assert f"following {path}: no log imported as access.log before is here any more" in again.communicate()[1]
    assert len(stored_events(db)) == 4


def test_follow_until_interrupted(mongod: Embedded, db: Db, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(line(0))
    process = following(mongod, db, path)
    assert process.stdout is not None
    assert "1 stored" in process.stdout.readline()
    with path.open("a") as file:
        file.write(line(1))
    assert "2 stored" in process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert sum(day["total"] for day in db["analytics.hits_daily"].find()) == 2
