"""Validates products and builds their documents: common fields at the top, type-specific fields in `details`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from squinney import checks
from squinney.commerce.catalog.words import folded, parts_of
from squinney.commerce.documents import CURRENCY, MAX_PRICE
from squinney.errors import Invalid
from squinney.mongo.problems import MALFORMED
from squinney.patterns import attributes
from squinney.patterns.ids import new_id
from squinney.transactions import CHECKS_FIELD

Product = dict[str, Any]

SCHEMA_VERSION = 2  # since 2, titles are sorted without accents, and texts without spaces are searchable
MAX_DETAILS = 200_000
MAX_DETAILS_DEPTH = 8
TEXT_LANGUAGE = "text_language"  # the text index reads a language from this field, so details may have a `language`
COMPUTED = {"title_lower", "title_parts", "version", "schema_version", "added_id", CHECKS_FIELD}


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _unique(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values))


Text = Annotated[str, Field(max_length=1_000), AfterValidator(_without_nul)]
Short = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_without_nul)]
Names = Annotated[list[Short], Field(max_length=200)]
Size = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Price = Annotated[int, Field(ge=0, le=MAX_PRICE, strict=True)]


def _utc(value: datetime) -> datetime:
    """Convert a time to UTC in milliseconds, as MongoDB stores it; a time without zone is UTC.

    Raises: `ValueError` if the time is not in the years 1 to 9999 in UTC.
    """
    value = value if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC).replace(microsecond=value.microsecond // 1000 * 1000)
    except OverflowError:
        raise ValueError("must be from the year 1 to 9999 in UTC") from None


Time = Annotated[datetime, AfterValidator(_utc)]


class Details(BaseModel):
    """The base of the models of details: undeclared fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Track(Details):
    """One track of an album."""

    title: Text
    duration_seconds: int | None = Field(None, ge=0)


class AudioAlbum(Details):
    """The details of an audio album."""

    genre: Names = []
    artist: Text | None = None
    tracks: list[Track | Text] = Field([], max_length=500)
    issue_date: Time | None = None


class Film(Details):
    """The details of a film."""

    genre: Names = []
    director: Names = []
    actor: Names = []
    writer: Names = []
    aspect_ratio: Short | None = None
    issue_date: Time | None = None


TYPES: Mapping[str, type[BaseModel]] = {"Audio Album": AudioAlbum, "Film": Film}


class Dimensions(Details):
    """The size of a package in millimetres."""

    width: Size
    height: Size
    depth: Size


class Shipping(Details):
    """The weight in grams, and the size of the package."""

    weight: Size
    dimensions: Dimensions | None = None


class Pricing(Details):
    """Prices in minor units. The savings are computed; values in the input are ignored."""

    list: Price
    retail: Price
    currency: str = Field(pattern=f"^{CURRENCY}$")
    savings: int = 0
    pct_savings: int = 0

    @model_validator(mode="after")
    def _compute(self) -> Pricing:
        self.savings = max(0, self.list - self.retail)
        self.pct_savings = self.savings * 100 // self.list if self.list else 0
        return self


class Common(Details):
    """The fields that every product has."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    sku: Short = Field(alias="_id")
    type: Short
    title: Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(_without_nul)]
    description: Annotated[str, Field(max_length=50_000), AfterValidator(_without_nul)] = ""
    asin: Short | None = None
    category_ids: Annotated[list[Short], Field(max_length=100), AfterValidator(_unique)] = []
    brand: Short | None = None
    shipping: Shipping | None = None
    pricing: Pricing
    details: dict[str, Any] = {}
    properties: Any = []


FIELDS = {"_id", *Common.model_fields} - {"sku"}


def addressable_sku(value: Any) -> str:
    """Validate a SKU that can be part of a URL: browsers and proxies resolve the path segments `.` and `..`.

    Raises: `Invalid`.
    """
    sku = checks.identifier(value, "sku")
    if not {".", ".."}.isdisjoint(sku.split("/")):
        raise Invalid("sku must not be . or .., nor contain them between slashes", field="sku")
    return sku


def product_from(given: Any, types: Mapping[str, type[BaseModel]] = TYPES) -> Product:
    """Validate a product and return the document to store.

    Raises: `Invalid` naming the first field that is wrong.
    """
    if not isinstance(given, Mapping):
        raise Invalid("a product must be an object", field="product")
    common = _validated(Common, {name: value for name, value in given.items() if name not in COMPUTED}, "")
    details = common.details
    if model := types.get(common.type):
        details = _validated(model, details, "details.").model_dump(exclude_none=True)
    stored = common.model_dump(exclude={"sku", "details", "properties"}, exclude_none=True)
    checked = _checked_details(details)
    return {
        "_id": addressable_sku(common.sku),
        **stored,
        **title_fields(common.title, checked),
        "details": checked,
        "properties": _pairs(common.properties),
        "schema_version": SCHEMA_VERSION,
    }


def new_product(given: Product) -> Product:
    """Return the first version of a product. Its `added_id` differs from those of removed products with this SKU."""
    return {**given, "version": 1, "added_id": new_id()}


def damage_of(product: Any) -> str | None:
    """Return why a stored product is invalid, or None. Other fields, such as the score of a search, are ignored."""
    try:
        product_from({name: value for name, value in product.items() if name in FIELDS})
    except Invalid as error:
        return error.message
    except MALFORMED as error:
        return f"{type(error).__name__}: {error}"
    return None


def title_fields(title: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the fields by which a product is sorted and searched from its title and its people's names."""
    people = [details.get("artist"), *details.get("actor", [])]
    parts = parts_of(text for text in [title, *people] if isinstance(text, str))
    return {"title_lower": folded(title), **({"title_parts": parts} if parts else {})}


def _validated(model: type[BaseModel], given: Mapping[str, Any], prefix: str) -> Any:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = prefix + ".".join(str(part) for part in first["loc"])
        raise Invalid(f"{field}: {first['msg']}", field=field) from None


def _pairs(properties: Any) -> list[Any]:
    """Return the name-value pairs to store, from a mapping or from stored pairs."""
    if isinstance(properties, list):
        if not all(_is_pair(pair) for pair in properties):
            raise Invalid("properties must be an object, or a list of {n, v}", field="properties")
        properties = attributes.mapping(properties)
    return attributes.pairs(properties)


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, Mapping) and pair.keys() == {"n", "v"} and isinstance(pair["n"], str)


def _checked_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Check that details of any shape can be stored and searched."""
    checked: dict[str, Any] = _checked_value(details, "details", MAX_DETAILS_DEPTH)
    if len(json.dumps(checked, default=str)) > MAX_DETAILS:
        raise Invalid(f"details must be at most {MAX_DETAILS} bytes", field="details", limit=MAX_DETAILS)
    if isinstance(checked.get("issue_date"), str):
        checked["issue_date"] = _parsed_date(checked["issue_date"])
    for name in ("genre", "actor"):
        values = checked.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise Invalid(f"details.{name} must be a list of strings", field=f"details.{name}")
        if values:
            checked[name] = _unique(values)
    if TEXT_LANGUAGE in checked:
        raise Invalid(f"details must not have a field {TEXT_LANGUAGE}", field=f"details.{TEXT_LANGUAGE}")
    if not isinstance(checked.get("issue_date"), datetime | None):
        raise Invalid("details.issue_date must be a time", field="details.issue_date")
    return checked


def _checked_value(value: Any, field: str, depth: int) -> Any:
    if depth < 0:
        raise Invalid(
            f"details must be at most {MAX_DETAILS_DEPTH} levels deep", field="details", limit=MAX_DETAILS_DEPTH
        )
    if isinstance(value, Mapping):
        return {
            checks.field_name(name, f"{field} name"): _checked_value(inner, f"{field}.{name}", depth - 1)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_checked_value(inner, field, depth - 1) for inner in value]
    if isinstance(value, str):
        return checks.text(value, field, max_length=MAX_DETAILS)
    if isinstance(value, int) and not isinstance(value, bool):
        return checks.integer(value, field)
    if isinstance(value, datetime):
        return _checked_time(value, field)
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise Invalid(f"{field} must be text, a finite number, true, false, a time, a list or an object", field=field)


def _checked_time(value: datetime, field: str) -> datetime:
    try:
        return _utc(value)
    except ValueError as error:
        raise Invalid(f"{field} {error}", field=field) from None


def _parsed_date(text: str) -> datetime:
    try:
        return _utc(datetime.fromisoformat(text))
    except ValueError:
        raise Invalid("details.issue_date must be a time such as 1959-08-17", field="details.issue_date") from None
