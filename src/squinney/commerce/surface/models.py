"""The request and response models of the shop's API."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from squinney.commerce.carts.documents import Cart
from squinney.commerce.catalog.products import Common
from squinney.commerce.catalog.search import FACETS
from squinney.commerce.categories.documents import Ancestor
from squinney.commerce.documents import CURRENCY, MAX_LINES, MAX_PRICE, MAX_QTY, MAX_STOCK
from squinney.commerce.inventory.documents import Movement, Stock
from squinney.commerce.orders.documents import Order
from squinney.commerce.payments.documents import Payment
from squinney.http.bodies import Body, IgnoresReadOnlyFields
from squinney.http.response_models import model_of

Sku = Annotated[str, Field(min_length=1, max_length=200, examples=["album-0"])]
Currency = Annotated[str, Field(pattern=f"^{CURRENCY}$", examples=["EUR"])]
Units = Annotated[int, Field(ge=1, le=MAX_QTY, examples=[2])]
Slug = Annotated[str, Field(min_length=1, max_length=100, examples=["jazz"])]
Name = Annotated[str, Field(min_length=1, max_length=200, examples=["Jazz"])]


class ProductPatch(Body):
    """Changes of some fields of a product; null removes a field."""

    changes: dict[str, Any] = Field(examples=[{"title": "A better title"}])
    expected_version: int | None = Field(None, ge=1)


class NewProduct(IgnoresReadOnlyFields, Common):
    """A new product. `id` is its SKU, and `details` has the fields of its type."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)
    READ_ONLY = frozenset({"version", "categories", "score"})
    sku: Annotated[str, Field(min_length=1, max_length=200, alias="id", examples=["album-0"])]

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        """Accept `_id`, the name in the library, as well as `id`."""
        if not isinstance(given, dict):
            return given
        return {"id" if name == "_id" else name: value for name, value in given.items()}

    def product(self) -> dict[str, Any]:
        """Return the product in the form that `Catalog.add` takes."""
        given = self.model_dump(exclude_unset=True, exclude={"sku"})
        return {"_id": self.sku, **{name: value for name, value in given.items() if value is not None}}


class Receipt(Body):
    """Received units of a product."""

    qty: int = Field(ge=1, le=MAX_STOCK)
    reason: str = Field("", max_length=500)


class Adjustment(Body):
    """A correction of the stock: units found, or units lost if `delta` is negative."""

    delta: int = Field(ge=-MAX_STOCK, le=MAX_STOCK)
    reason: str = Field(min_length=1, max_length=500)


class NewCategory(IgnoresReadOnlyFields, Body):
    """A new category; without a slug, the slug is made from the name."""

    READ_ONLY = frozenset({"id", "parent_id", "ancestors", "position", "version"})
    name: Name
    slug: Slug | None = None
    parent: Slug | None = None


class CategoryMove(Body):
    """The new parent and position of a category; without a parent, it becomes a root."""

    parent: Slug | None = None
    position: int | None = Field(None, ge=0, le=10**9)


class CategoryPatch(Body):
    """The new name or the new slug of a category; exactly one of them is given."""

    name: Name | None = None
    slug: Slug | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.name is None) == (self.slug is None):
            raise ValueError("give either a name or a slug")
        return self


class NewCart(Body):
    """A new cart."""

    currency: Currency | None = None
    customer: str | None = Field(None, min_length=1, max_length=200)


class LineModel(Body):
    """A product and the number of units to add."""

    sku: Sku
    qty: Units = 1


class Quantity(Body):
    """The new quantity of a line."""

    qty: int = Field(ge=0, le=MAX_QTY)


class OrderLineModel(Body):
    """A line of an order."""

    sku: Sku
    price: int = Field(ge=0, le=MAX_PRICE, examples=[1099])
    qty: Units
    title: str | None = Field(None, max_length=1_000)


class OrderLineChange(OrderLineModel):
    """A line to add to an order; `currency` must be the currency of the order."""

    currency: Currency | None = None


class NewOrder(IgnoresReadOnlyFields, Body):
    """A new order without a cart."""

    READ_ONLY = frozenset({"id", "total", "status", "placed_at", "version", "payment_id"})
    items: list[OrderLineModel] = Field(min_length=1, max_length=MAX_LINES)
    currency: Currency = "EUR"
    customer: str | None = Field(None, min_length=1, max_length=200)


class ProductModel(BaseModel):
    """A product. `details` has the fields of its type."""

    model_config = ConfigDict(extra="ignore")
    id: str = Field(validation_alias="_id")
    type: str
    title: str
    description: str = ""
    asin: str | None = None
    brand: str | None = None
    category_ids: list[str] = []
    categories: list[CategoryModel] | None = None
    shipping: dict[str, Any] | None = None
    pricing: dict[str, Any]
    details: dict[str, Any]
    properties: list[dict[str, Any]]
    score: float | None = None
    version: int


AncestorModel = model_of(Ancestor, model_name="AncestorModel")


class CategoryModel(BaseModel):
    """A category with its ancestors, parent first. `parent` is the slug of the parent."""

    id: str = Field(validation_alias="_id")
    slug: str
    name: str
    parent: str | None
    parent_id: str | None
    ancestors: list[AncestorModel]  # type: ignore[valid-type]
    position: int
    version: int

    @model_validator(mode="before")
    @classmethod
    def _parent_by_slug(cls, stored: Any) -> Any:
        above = stored["ancestors"][0]["slug"] if stored["ancestors"] else None
        return {**stored, "parent_id": stored["parent"], "parent": above}


StockModel = model_of(Stock, without=["removed_ids"])
MovementModel = model_of(Movement)
CartModel = model_of(Cart, without=["attempt", "key"])
OrderModel = model_of(Order, items=list[dict[str, Any]])
PaymentModel = model_of(Payment, without=["attempt", "items", "refunding_at", "intent", "reason"])


class FacetRow(BaseModel):
    """A value and the number of products that have it."""

    value: Any
    count: int


_COUNTS: dict[str, Any] = dict.fromkeys(FACETS, (list[FacetRow] | None, None))
Facets = create_model("Facets", __doc__="Counts by value, for each requested field.", total=(int, ...), **_COUNTS)


class Removed(BaseModel):
    """The number of removed categories."""

    removed: int


ProductModel.model_rebuild()
