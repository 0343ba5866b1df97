"""Converts products to form fields and back: prices as decimals, categories as slugs, details and properties as lines.

A line is `name: value`. A value is text unless it is JSON: `genre: ["Jazz", "Bop"]`, `year: 1961`, `"a:b": "1961"`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from squinney.errors import Invalid
from squinney.patterns import attributes, money

Text = Annotated[str, Field(max_length=1_000)]
Long = Annotated[str, Field(max_length=200_000)]


class ProductForm(BaseModel):
    """The fields of the form as the user typed them."""

    model_config = ConfigDict(str_strip_whitespace=True)
    sku: Text = ""
    type: Text = ""
    title: Text = ""
    brand: Text = ""
    description: Long = ""
    price: Text = ""
    list_price: Text = ""
    currency: Text = "EUR"
    categories: Long = ""
    details: Long = ""
    properties: Long = ""


def form_for(product: Mapping[str, Any]) -> ProductForm:
    """Return the form fields of a product that includes its `categories`."""
    pricing = product["pricing"]
    amounts = {name: money.formatted(pricing[name], pricing["currency"]).split()[0] for name in ("list", "retail")}
    return ProductForm.model_construct(
        sku=product["_id"],
        type=product["type"],
        title=product["title"],
        brand=product.get("brand", ""),
        description=product.get("description", ""),
        price=amounts["retail"],
        list_price=amounts["list"] if pricing["list"] != pricing["retail"] else "",
        currency=pricing["currency"],
        categories=", ".join(category["slug"] for category in product["categories"]),
        details=as_lines(product.get("details", {})),
        properties=as_lines(attributes.mapping(product.get("properties", []))),
    )


def product_of(form: ProductForm, category_ids: list[str], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the product to store. Fields that the form does not show, and unchanged lines, keep their stored values.

    Raises: `Invalid` naming the field.
    """
    retail = money.parsed(form.price, form.currency, "price")
    list_price = money.parsed(form.list_price, form.currency, "list price") if form.list_price else retail
    properties = attributes.mapping(before.get("properties", []))
    return {
        # guard: fields that the product form does not show keep their values
        **{name: before[name] for name in ("asin", "shipping") if name in before},
        **({"brand": form.brand} if form.brand else {}),
        "_id": form.sku,
        "type": form.type,
        "title": form.title,
        "description": form.description,
        "pricing": {"list": list_price, "retail": retail, "currency": form.currency},
        "category_ids": category_ids,
        "details": from_lines(form.details, before.get("details", {}), "details"),
        "properties": from_lines(form.properties, properties, "properties"),
    }


def as_lines(values: Mapping[str, Any]) -> str:
    """Format a mapping as lines `name: value`; None values are left out."""
    shown = {name: value for name, value in values.items() if value is not None}
    return "\n".join(f"{_plain_or_json(name, ':')}: {_value_text(value)}" for name, value in shown.items())


def from_lines(text: str, before: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Parse lines `name: value`. A line whose text did not change keeps its stored value, which may be a time.

    Raises: `Invalid` naming the line.
    """
    details: dict[str, Any] = {}
    for line in filter(str.strip, text.split("\n")):
        name, value = _split_line(line.strip(), field)
        # guard: the lines of the product form have different names
        if name in details:
            raise Invalid(f"{field}: there are two lines for {name[:50]}", field=field)
        same = name in before and _value_text(before[name]) == value
        # guard: an unchanged line of the product form keeps its value
        details[name] = before[name] if same else _json_or_text(value)
    return details


def _split_line(line: str, field: str) -> tuple[str, str]:
    try:
        name, end = json.JSONDecoder().raw_decode(line) if line.startswith('"') else (None, 0)
    except ValueError:
        name, end = None, 0
    before_colon, colon, value = line[end:].partition(":")
    if not colon or (name is not None and before_colon.strip()):
        raise Invalid(f"{field}: a line must be a name, a colon and a value, not {line[:50]}", field=field)
    return (before_colon.strip() if name is None else name), value.strip()


def _value_text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}" if value.hour == value.minute == value.second == 0 else value.isoformat()
    if isinstance(value, str):
        return _plain_or_json(value)
    return json.dumps(value, ensure_ascii=False, default=_value_text)


def _plain_or_json(text: str, never: str = "\n") -> str:
    """Return the text unchanged, or as a JSON string if the parser would read it as something else."""
    is_plain = text and text == text.strip() and not {"\n", "\r", never} & set(text) and text[0] != '"'
    return text if is_plain and _json_or_text(text) == text else json.dumps(text, ensure_ascii=False)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _: text)
    except (ValueError, RecursionError):
        return text
