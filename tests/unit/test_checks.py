"""Checks of input."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from squinney import checks
from squinney.errors import Invalid


@pytest.mark.parametrize("value", [None, 5, b"x", ["x"], {"$gt": ""}, "too long", "a\0", "\ud800"], ids=repr)
def test_text_refuses_what_is_no_plain_string(value: Any) -> None:
    with pytest.raises(Invalid, match=r"^title must") as caught:
        checks.text(value, "title", max_length=5)
    assert caught.value.details["field"] == "title"


def test_text_matches_in_full() -> None:
    assert checks.text("EUR", "currency", max_length=3, pattern="[A-Z]{3}") == "EUR"
    with pytest.raises(Invalid):
        checks.text("EUR\n", "currency", max_length=9, pattern="[A-Z]{3}")


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, 11], ids=repr)
def test_integer_refuses_what_is_none(value: Any) -> None:
    with pytest.raises(Invalid, match=r"^qty must"):
        checks.integer(value, "qty", minimum=0, maximum=10)


def test_time_is_in_utc_and_as_exact_as_the_server_keeps_it() -> None:
    east = timezone(timedelta(hours=14))
    stored = datetime(2026, 1, 1, 0, 0, 0, 999_000, UTC)
    assert checks.time(datetime(2026, 1, 1, 14, 0, 0, 999_999, east), "at") == stored
    for value in (None, "2026-01-01", datetime(2026, 1, 1), datetime(1, 1, 1, tzinfo=east)):  # noqa: DTZ001
        with pytest.raises(Invalid, match=r"^at must"):
            checks.time(value, "at")


@pytest.mark.parametrize("value", ["", "$where", "a.b", "a\0b", 7, "x" * 201], ids=repr)
def test_field_name_refuses_what_mongodb_would_misread(value: Any) -> None:
    with pytest.raises(Invalid):
        checks.field_name(value, "name")
    assert checks.field_name("Seek Time $", "name") == "Seek Time $"
