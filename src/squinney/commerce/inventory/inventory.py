"""`Inventory`: the stock of each SKU, and the history of its changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.commerce.documents import COUNTS, MAX_STOCK
from squinney.commerce.errors import UnknownProduct
from squinney.commerce.inventory import queries
from squinney.commerce.inventory.documents import STOCK, Movement, Stock
from squinney.commerce.inventory.steps import movement_step, not_removed, shortage
from squinney.commerce.rules import stale
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import Key, Plan, Step, Transactions


class Inventory:
    """The stock of record. Per SKU, received + adjusted = qty (available) + carted + sold at every moment."""

    def __init__(self, db: Db, *, transactions: Transactions | None = None, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._clock = clock

    @operation()
    def receive(
        self, sku: str, qty: int, *, reason: str = "", key: str | Key | None = None, also: Sequence[Step] = ()
    ) -> Stock:
        """Add received units of a product to its stock, once per `key`; return the stock.

        Atomic: the stock and its movement change in one `Transactions` run. The first receipt inserts the stock.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownProduct`; with a key also `KeyReused`.
        """
        checks.identifier(sku, "sku")
        checks.integer(qty, "qty", minimum=1, maximum=MAX_STOCK)
        return self._change(sku, "received", qty, reason, key=key, also=also)

    @operation()
    def adjust(
        self, sku: str, delta: int, reason: str, *, key: str | Key | None = None, also: Sequence[Step] = ()
    ) -> Stock:
        """Correct the available quantity by `delta`, once per `key`; return the stock.

        A negative `delta` removes lost units; carted and sold units cannot be removed.

        Atomic: the stock and its movement change in one `Transactions` run; the guard on `qty` decides.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownProduct`, `InadequateInventory`; with a key also `KeyReused`.
        """
        checks.identifier(sku, "sku")
        checks.integer(delta, "delta", minimum=-MAX_STOCK, maximum=MAX_STOCK)
        checks.text(reason, "reason", min_length=1, max_length=500)
        if delta == 0:
            raise Invalid("delta must not be 0", field="delta")
        return self._change(sku, "adjusted", delta, reason, key=key, also=also)

    def _change(
        self, sku: str, kind: str, qty: int, reason: str, *, key: str | Key | None, also: Sequence[Step]
    ) -> Stock:
        checks.text(reason, "reason", max_length=500)
        fields = {"_id": new_id(), "sku": sku, "kind": kind, "qty": qty, "reason": reason, "at": self._clock()}
        movement = cast(Movement, fields)

        def plan() -> Plan:
            stock = queries.STOCK.find_one(self._db, sku=sku)
            # The product is read after the stock, so that its removal after this makes the step fail.
            guard = not_removed(self._product(sku)) if kind == "received" else {}
            return Plan([_stock_step(sku, kind, qty, stock, guard), movement_step(movement)]).also(also)

        arguments = {"sku": sku, "qty": qty, "reason": reason}
        self._transactions.run(f"stock {kind}", plan, key=key, arguments=arguments)
        return self.level(sku)

    def _product(self, sku: str) -> Document:
        product = queries.PRODUCT_ID.find_one(self._db, sku=sku, projection={"added_id": 1})
        if product is None:
            raise UnknownProduct(f"there is no product {sku}", sku=sku)
        return product

    @operation(reads_only=True)
    def level(self, sku: str) -> Stock:
        """Return the stock of a SKU.

        Raises: `UnknownProduct` if no unit was ever received.
        """
        checks.identifier(sku, "sku")
        stock = queries.STOCK.find_one(self._db, sku=sku)
        if stock is None:
            raise _never_received(sku)
        return cast(Stock, stock)

    @operation(reads_only=True)
    def levels(self, skus: list[str]) -> dict[str, Stock]:
        """Return the stock of several SKUs, by SKU; a SKU that was never received is missing.

        Raises: `Invalid`, also for more than 1,000 SKUs.
        """
        if len(skus) > 1_000:
            raise Invalid("skus must have at most 1000 items", field="skus", limit=1_000)
        stocks = queries.STOCKS.find(self._db, skus=[checks.identifier(sku, "sku") for sku in skus])
        return {stock["_id"]: cast(Stock, stock) for stock in stocks}

    @operation(reads_only=True)
    def movements(self, sku: str, *, cursor: str | None = None, limit: int = 50) -> Page[Movement]:
        """Return a page of the changes of a SKU's stock, newest first. Reservations are not recorded as changes.

        Raises: `Invalid` for an unknown cursor; `UnknownProduct` for a SKU without a product and without movements.
        """
        checks.identifier(sku, "sku")
        movements = page(self._db, queries.MOVEMENTS, cursor=cursor, limit=limit, sku=sku)
        if not movements.items and cursor is None:
            self._product(sku)
        return cast(Page[Movement], movements)


def _stock_step(sku: str, kind: str, qty: int, stock: Document | None, guard: Document) -> Step:
    if stock is None and kind == "adjusted":
        raise _never_received(sku)
    if stock is None:
        first = {**dict.fromkeys(COUNTS, 0), "received": qty, "qty": qty}
        return Step("commerce.stock", sku, insert=first, refused=stale("another operation has created the stock"))
    if stock["qty"] + qty > MAX_STOCK:
        raise Invalid(f"qty: the stock of a SKU must be at most {MAX_STOCK} units", field="qty", limit=MAX_STOCK)
    if qty > 0:
        increase = {"$inc": {kind: qty, "qty": qty}}
        not_too_many = {"qty": {"$lte": MAX_STOCK - qty}}
        changed = stale("the product was removed, or the stock has changed")
        # guard: receipts at once keep the limit of a stock
        return Step(STOCK, sku, guard={**guard, **not_too_many}, update=increase, refused=changed)
    return Step(
        STOCK,
        sku,
        guard={"qty": {"$gte": -qty}},
        update={"$inc": {"qty": qty, kind: qty}},
        refused=shortage(sku, -qty),
    )


def _never_received(sku: str) -> UnknownProduct:
    return UnknownProduct(f"no units of {sku} were ever received", sku=sku)
