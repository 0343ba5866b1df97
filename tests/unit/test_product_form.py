"""Tests of the product form: unchanged lines keep the stored values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squinney.commerce.surface.product_form import as_lines, from_lines
from squinney.errors import Invalid

TEXTS = st.text('ab1e:"[]{},\\ \n\r\t\u2028\u00e9\u6771', max_size=8)
AWKWARD = st.sampled_from(
    ["", "1", "true", "null", '"', '"a', "a: b", " a ", "a\nb", "\r", "\u2028", "[", "NaN", "1e5"]
)
SCALARS = TEXTS | AWKWARD | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
NAMES = (TEXTS | AWKWARD).filter(bool)


@given(st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=3)))
def test_formatted_lines_are_parsed_to_the_same_values(values: dict[str, Any]) -> None:
    sent = as_lines(values).replace("\n", "\r\n")  # as browsers do
    read = from_lines(sent, {}, "details")
    assert (read, [type(value) for value in read.values()]) == (values, [type(value) for value in values.values()])


def test_an_unchanged_line_keeps_its_time() -> None:
    stored = {"issue_date": datetime(1961, 3, 2, tzinfo=UTC), "checked": datetime(2020, 1, 1, 12, 30, tzinfo=UTC)}
    shown = as_lines(stored)
    assert from_lines(shown, stored, "details") == stored
    assert from_lines(shown.replace("1961", "1962"), stored, "details") == {**stored, "issue_date": "1962-03-02"}


@pytest.mark.parametrize("text", ["no colon", '"quoted" and more: 1', "a: 1\na: 2"])
def test_an_invalid_line_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="details"):
        from_lines(text, {}, "details")
