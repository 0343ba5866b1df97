"""Formatting and parsing amounts of money."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squinney.errors import Invalid
from squinney.patterns.money import formatted, parsed

SHOWN = [
    (0, "EUR", "0.00 EUR"),
    (-5, "EUR", "-0.05 EUR"),
    (123456789, "EUR", "1,234,567.89 EUR"),
    (1234, "JPY", "1,234 JPY"),
]


@pytest.mark.parametrize(("amount", "currency", "text"), [*SHOWN, (1234, "KWD", "1.234 KWD")])
def test_it_is_shown_with_the_currencys_decimals(amount: int, currency: str, text: str) -> None:
    assert formatted(amount, currency) == text


@given(st.integers(0, 10**18), st.sampled_from(["EUR", "JPY", "KWD"]))
def test_what_is_shown_can_be_typed(amount: int, currency: str) -> None:
    assert parsed(formatted(amount, currency).removesuffix(f" {currency}"), currency) == amount


@pytest.mark.parametrize(
    "text", ["", "abc", "-1", "1.234", "1e5", "1.2.3", "١٢", "0x10", "1.-5", "nan", "+1", "9" * 5_000]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="price must be an amount"):
        parsed(text, "EUR", "price")


@pytest.mark.parametrize("text", ["12,50", "1,5", "1,2345", ",123", "1,,234", "1234,567", "1.2,5"])
def test_a_comma_that_parts_no_thousands_is_no_amount(text: str) -> None:
    with pytest.raises(Invalid):
        parsed(text, "EUR")


def test_a_currency_without_decimals_takes_none() -> None:
    with pytest.raises(Invalid):
        parsed("5.0", "JPY")
    assert parsed("5", "JPY") == 5
