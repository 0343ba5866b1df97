"""Amounts of money for people: integers in minor units, formatted with the decimals of their currency."""

from __future__ import annotations

import re

from squinney.errors import Invalid

# ISO 4217: currencies without two decimals.
DECIMALS = {
    **dict.fromkeys(["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV"], 0),
    **dict.fromkeys(["XAF", "XOF", "XPF"], 0),
    **dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3),
}
AMOUNT = re.compile(r"(?P<whole>[0-9]{1,24}|[0-9]{1,3}(,[0-9]{3}){1,7})(\.(?P<part>[0-9]*))?")


def decimals(currency: str) -> int:
    """Return the number of decimals of the currency."""
    return DECIMALS.get(currency, 2)


def formatted(amount: int, currency: str) -> str:
    """Format `-1234567` cents as `-12,345.67 EUR`, without using floats."""
    digits = decimals(currency)
    whole, part = divmod(abs(amount), 10**digits)
    sign = "-" if amount < 0 else ""
    fraction = f".{part:0{digits}d}" if digits else ""
    return f"{sign}{whole:,}{fraction} {currency}"


def parsed(text: str, currency: str, field: str = "amount") -> int:
    """Parse the amount that a person typed, such as `12.50` or `1,234.5`, into minor units.

    Commas may only separate thousands: `12,50` is rejected, and not read as 1250.

    Raises: `Invalid` naming the field.
    """
    typed = AMOUNT.fullmatch(text.strip())
    digits = decimals(currency)
    if typed is None or len(part := typed["part"] or "") > digits:
        raise Invalid(f"{field} must be an amount such as 12.50, with the decimals of {currency[:3]}", field=field)
    return int(typed["whole"].replace(",", "") + part.ljust(digits, "0"))
