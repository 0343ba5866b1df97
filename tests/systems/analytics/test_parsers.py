"""Parsers of every format: the types of their fields, and the reasons for rejected lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squinney.analytics.errors import UnknownFormat
from squinney.analytics.parsers import FORMATS, FieldMap, Malformed, detect, parser_for
from squinney.errors import Invalid

COMBINED = (
    '203.0.113.7 - ann [17/May/2015:12:05:03 +0200] "GET /a%20b.html?x=1&y HTTP/1.1" 200 1234 '
    '"http://example.org/" "Mozilla \\"quoted\\" 5.0"'
)


def test_combined_has_proper_types() -> None:
    assert FORMATS["combined"](COMBINED) == {
        "time": datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC),
        "host": "203.0.113.7",
        "user": "ann",
        "method": "GET",
        "path": "/a%20b.html",
        "query": "x=1&y",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": 1234,
        "referer": "http://example.org/",
        "user_agent": 'Mozilla \\"quoted\\" 5.0',
    }


def test_a_dash_is_absent() -> None:
    event = FORMATS["common"]('h - - [01/Jan/2020:00:00:00 -0330] "-" 408 -')
    assert event == {
        "time": datetime(2020, 1, 1, 3, 30, tzinfo=UTC),
        "host": "h",
        "status": 408,
    }


def test_caddy() -> None:
    entry = {
        "ts": 1646861401.5241024,
        "request": {
            "remote_ip": "198.51.100.9",
            "method": "GET",
            "uri": "/p?q=1",
            "proto": "HTTP/2.0",
            "headers": {"User-Agent": ["curl/7.82.0"], "Referer": ["http://r/"]},
        },
        "user_id": "",
        "status": 200,
        "size": 10900,
    }
    event = FORMATS["caddy"](json.dumps(entry))
    assert event["time"] == datetime(2022, 3, 9, 21, 30, 1, 524102, tzinfo=UTC)
    assert (event["host"], event["path"], event["query"], event["status"], event["bytes"]) == (
        "198.51.100.9",
        "/p",
        "q=1",
        200,
        10900,
    )
    assert (event["user_agent"], event["referer"]) == ("curl/7.82.0", "http://r/")
    assert "user" not in event


def test_json_with_a_field_map() -> None:
    parse = parser_for("json", {"time": "@timestamp", "path": "uri", "bytes": "sent"})
    event = parse('{"@timestamp": "2020-02-29T23:00:00-05:00", "uri": "/x?y", "sent": "12", "other": [1]}')
    assert event == {"time": datetime(2020, 3, 1, 4, tzinfo=UTC), "path": "/x", "query": "y", "bytes": 12}


def test_a_field_map_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(Invalid, match="colour"):
        FieldMap({"colour": "c"})


@pytest.mark.parametrize(
    ("format", "line", "why"),
    [
        ("combined", "", "does not begin"),
        ("combined", COMBINED.rstrip('"'), "quotation mark"),
        ("combined", COMBINED.replace("May", "Mai"), "no such time"),
        ("combined", COMBINED.replace("17/May", "31/Feb"), "no such time"),
        ("combined", COMBINED.replace("2015", "0015"), "from the year 1000"),
        ("json", '{"time": "9999-12-31T23:59:59Z"}', "before 9998"),
        ("combined", COMBINED.replace("1234", "9" * 30), "too large"),
        ("json", "[1]", "object"),
        ("json", "{", "not JSON"),
        ("json", '{"time": "2020-01-01T00:00:00"}', "zone"),
        ("json", '{"path": "/"}', "no time"),
        ("json", '{"time": 1, "path": "/\\uD800"}', "not Unicode"),
        ("caddy", '{"ts": 1, "request": {"uri": "/\\ud800"}}', "not Unicode"),
        ("json", '{"time": 1e300}', "time"),
        ("caddy", '{"ts": 1}', "no request"),
        ("caddy", '{"ts": 1, "request": {}}', "no request"),
        ("caddy", '{"ts": 1, "request": {"uri": "/", "host": {}}}', "site is not text"),
        ("caddy", '{"ts": 1, "request": {"uri": "/", "remote_addr": {}}}', "host is not text"),
    ],
)
def test_a_malformed_line_says_why(format: str, line: str, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        FORMATS[format](line)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("part", [" [", " [x] ", ' [x] "', " [x", ' "', '\\"', " "])
def test_no_line_is_slow(part: str) -> None:
    """Regression: the first of these took half a minute, and the time grew with the square of the length."""
    for format in ("combined", "common"):
        with pytest.raises(Malformed):
            FORMATS[format]("h - " + part * (65_000 // len(part)))


def test_formats_are_detected() -> None:
    assert detect(["garbage", COMBINED]) == "combined"
    assert detect(['h - - [01/Jan/2020:00:00:00 +0000] "GET / HTTP/1.0" 200 5']) == "common"
    assert detect(['{"ts": 1, "request": {"uri": "/"}}']) == "caddy"
    assert detect(['{"time": 1, "path": "/", "status": 200}']) == "json"
    assert detect(["garbage"]) is None
    with pytest.raises(UnknownFormat, match="combined"):
        parser_for("elf")


@given(st.text())
def test_no_text_breaks_a_parser(text: str) -> None:
    for parse in FORMATS.values():
        try:
            event = parse(text)
        except Malformed:
            continue
        assert event["time"].tzinfo is UTC
