"""Tests of formatting stored values for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from squinney.commerce.surface.wording import label, labelled, readable


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["a", "b"], "a, b"),
        ({"width": 3, "height_mm": 4.5}, "Width: 3, Height mm: 4.5"),
        ([{"title": "So What", "side": 1}, {"title": "Blue"}], "Title: So What, Side: 1; Title: Blue"),
        ([["a", "b"], ["c"]], "a, b; c"),
        (True, "yes"),
        (False, "no"),
        (1959, "1959"),
        (0.1, "0.1"),
        (1e16, "1e+16"),
        (datetime(1959, 8, 17, tzinfo=UTC), "1959-08-17"),
        (datetime(1959, 8, 17, 20, 15, tzinfo=UTC), "1959-08-17 20:15 UTC"),
        (None, ""),
        ([], ""),
        ("plain <b>", "plain <b>"),
    ],
)
def test_values(value: Any, text: str) -> None:
    assert readable(value) == text


def test_details_have_labels_and_what_is_empty_is_left_out() -> None:
    details = {"screen_size": 32, "genre": ["x"], "issue_date": None, "ports": [], "smart": True}
    assert labelled(details) == [("Screen size", "32"), ("Smart", "yes")]
    assert label("ISBN") == "ISBN"
