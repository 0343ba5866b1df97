"""`Carts`: goods are reserved as they are added, given back when the cart ends, and sold by a checkout."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from typing import cast, get_args

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.commerce.carts import expiry, queries, rules
from squinney.commerce.carts.checkout import Checkout
from squinney.commerce.carts.documents import Cart, CartStatus, Line, Payment
from squinney.commerce.documents import CURRENCY, MOST_QTY
from squinney.commerce.errors import UnknownCart
from squinney.commerce.orders.documents import Order
from squinney.commerce.orders.orders import Orders
from squinney.commerce.orders.payments import PaymentGateway
from squinney.errors import Invalid
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page, page
from squinney.transactions import AT_REST, KEEP_KEYS_SECONDS, Busy, Key, Plan, Transactions


class Carts:
    """Carts over a stock that is never sold twice.

    Several instances, in several processes and in different transaction modes, may work on the same carts and stock.
    `payments` is the provider; `orders` makes the orders and defaults to one on the same database.
    """

    def __init__(
        self,
        db: Db,
        *,
        payments: PaymentGateway,
        orders: Orders | None = None,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
        currency: str = "EUR",
    ) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._clock = clock
        self.payments = payments
        self._currency = checks.text(currency, "currency", most=3, pattern=CURRENCY)
        orders = orders or Orders(db, payments=payments, transactions=self._transactions, clock=clock)
        self._checkout = Checkout(db, payments, orders, self._transactions, clock)

    @operation()
    def new(self, *, currency: str | None = None, customer: str | None = None, key: str | Key | None = None) -> Cart:
        """An empty cart; with a key, the same one again.

        Atomic: one insert; with a key, the key's record, which has the cart, and then the insert.
        After a crash: an empty cart at most, which expires; a repeat with the key makes a cart that is missing.
        Raises: `Invalid`; with a key also `KeyReused` and `StillRunning`.
        """
        cart: Cart = {
            "_id": secrets.token_hex(16),
            "status": "active",
            "last_modified": self._clock(),
            "items": [],
            "currency": checks.text(currency or self._currency, "currency", most=3, pattern=CURRENCY),
            "version": 1,
            "attempt": 0,
            "txns": [],
        }
        if customer is not None:
            cart["customer"] = checks.identifier(customer, "customer")
        if key is None:
            self._db["carts"].insert_one(dict(cart))
            return cart
        cart = self._run("new", lambda: Plan([], result=cart), {"currency": currency, "customer": customer}, key)
        self._db["carts"].update_one({"_id": cart["_id"]}, {"$setOnInsert": dict(cart)}, upsert=True)
        return cart

    @operation(reads_only=True)
    def get(self, cart_id: str) -> Cart:
        """The cart.

        Raises: `UnknownCart`.
        """
        checks.identifier(cart_id, "cart")
        cart = self._db["carts"].find_one(queries.CART(cart_id=cart_id))
        if cart is None:
            raise UnknownCart(f"there is no cart {cart_id}", cart_id=cart_id)
        return cast(Cart, cart)

    @operation()
    def claim(self, cart_id: str, customer: str) -> Cart:
        """Give a guest's cart to the customer who has signed in since.

        One that is somebody's stays theirs, and one that is being paid for or changed at this moment stays as it is.

        Raises: `Invalid`, `UnknownCart`.
        """
        owner = {"customer": checks.identifier(customer, "customer")}
        where = {"_id": checks.identifier(cart_id, "cart"), "status": "active", "customer": None, **AT_REST}
        self._db["carts"].update_one(where, {"$set": owner})
        return self.get(cart_id)

    @operation()
    def add_item(self, cart_id: str, sku: str, qty: int = 1, *, key: str | Key | None = None) -> Cart:
        """Put `qty` more of a product into the cart, at today's price unless the cart has it already.

        Atomic: the cart's line, the stock and the reservation, in one `Transactions` run; the stock decides.
        After a crash: native: nothing. Two-phase: what `recover-transactions` settles.
        Raises: `Invalid`, `UnknownCart`, `UnknownProduct`, `CartClosed`, `InadequateInventory`, `CartLimit`,
        `WrongCurrency`, `Busy`, `Unavailable`; with a key also `KeyReused` and `StillRunning`.
        """
        checks.identifier(cart_id, "cart")
        checks.identifier(sku, "sku")
        checks.integer(qty, "qty", least=1, most=MOST_QTY)

        def plan() -> Plan:
            cart, line = self._cart_and_line(cart_id, sku)
            return rules.quantity_plan(cart, line, line["qty"] + qty, self._clock())

        return self._run("add", plan, {"cart": cart_id, "sku": sku, "qty": qty}, key)

    def _cart_and_line(self, cart_id: str, sku: str) -> tuple[Cart, Line]:
        found = next(self._db["carts"].aggregate(queries.CART_AND_PRODUCT(cart_id=cart_id, sku=sku)), None)
        if found is None:
            raise UnknownCart(f"there is no cart {cart_id}", cart_id=cart_id)
        product = next(iter(found.pop("product")), None)
        cart = cast(Cart, found)
        held = next((line for line in cart["items"] if line["sku"] == sku), None)
        return cart, held or rules.new_line(cart, product, sku)

    @operation()
    def set_quantity(self, cart_id: str, sku: str, qty: int, *, key: str | Key | None = None) -> Cart:
        """Make the cart's line say `qty`; 0 removes it. The line's price stays.

        Atomic: as `add_item`.
        After a crash: as `add_item`.
        Raises: `Invalid`, `UnknownCart`, `UnknownLine`, `CartClosed`, `InadequateInventory`, `CartLimit`, `Busy`,
        `Unavailable`; with a key also `KeyReused` and `StillRunning`.
        """
        checks.identifier(sku, "sku")
        checks.integer(qty, "qty", least=0, most=MOST_QTY)

        def plan() -> Plan:
            cart = self.get(cart_id)
            return rules.quantity_plan(cart, rules.line_of(cart, sku), qty, self._clock())

        return self._run("set", plan, {"cart": cart_id, "sku": sku, "qty": qty}, key)

    @operation()
    def remove_item(self, cart_id: str, sku: str, *, key: str | Key | None = None) -> Cart:
        """Take a product out of the cart and give it back.

        Atomic: as `add_item`.
        After a crash: as `add_item`.
        Raises: as `set_quantity`.
        """
        return self.set_quantity(cart_id, sku, 0, key=key)

    def _run(self, kind: str, plan: Callable[[], Plan], arguments: dict[str, object], key: str | Key | None) -> Cart:
        outcome = self._transactions.run(f"cart {kind}", plan, key=key, arguments=arguments)
        return cast(Cart, outcome.result)

    @operation()
    def abandon(self, cart_id: str) -> Cart:
        """Give everything back and end the cart; one that has ended so stays as it is.

        Atomic: one update ends it; one `Transactions` run gives everything back.
        After a crash: the cart is `expiring`, and `expire-carts` goes on.
        Raises: `UnknownCart`, `CartClosed` for a cart that is pending or complete, `Busy`, `Unavailable`.
        """
        checks.identifier(cart_id, "cart")
        if not expiry.begin(self._db, cart_id):
            cart = self.get(cart_id)
            if cart["status"] == "active":
                raise Busy("another operation has the cart; try again", cart_id=cart_id)
            if cart["status"] in ("pending", "complete"):
                raise rules.closed(cart)
        expiry.finish(self._db, self._transactions, cart_id, self._clock())
        return self.get(cart_id)

    def checkout(self, cart_id: str, *, key: str) -> Order:
        """Charge for the cart and make its order, once: the same key again gives the same order.

        Atomic: the run that makes the cart pending together with its payment attempt; after the provider's answer, the
        run that makes payment, order and sale, or the one that reopens the cart.
        After a crash: the cart is pending and keeps its goods until `settle-payments` learns the attempt's end.
        Raises: `Invalid`, `UnknownCart`, `CartEmpty`, `CartClosed`, `StillRunning` while another checkout of the cart
        is under way, `PaymentDeclined` (the cart is active again), `PaymentRefunded`, `PaymentUnsettled`, `Busy`,
        `Unavailable`.
        """
        checks.identifier(cart_id, "cart")
        checks.text(key, "key", least=1, most=200)
        return self._checkout.run(cart_id, key)

    def settle(self, payment_id: str) -> Payment:
        """Ask the provider how an attempt stands now, and act on it; what a provider's webhook should call.

        A success for a cart that is gone takes the goods again or refunds.

        Atomic: the run that records the attempt's end with all that follows from it.
        After a crash: the attempt is as open as before, or settled.
        Raises: `UnknownPayment`, `PaymentUnsettled` where the provider does not answer, `Busy`, `Unavailable`.
        """
        checks.identifier(payment_id, "payment")
        return self._checkout.settle(payment_id, cancel=False)

    def settle_payments(self, stalled_seconds: float = 60) -> Counter[str]:
        """Learn the end of every attempt that has been open for longer, and act on it; counts by outcome.

        What the provider has not captured is cancelled there before the cart is reopened, so that a late capture fails.

        Atomic: each attempt by itself; safe when any number of workers do it at once.
        After a crash: the next call goes on.
        Raises: `Invalid`, `Unavailable`.
        """
        return self._checkout.settle_stalled(checks.seconds(stalled_seconds, "stalled_seconds"))

    @operation(300)
    def expire_carts(self, timeout_seconds: float) -> Counter[str]:
        """End active carts that nobody has touched for so long, and go on with those left half ended.

        Atomic: each cart by itself; safe when any number of workers do it at once.
        After a crash: the next call goes on.
        Raises: `Invalid`, `Unavailable`.
        """
        checks.seconds(timeout_seconds, "timeout_seconds")
        return expiry.expire_carts(self._db, self._transactions, timeout_seconds, self._clock())

    @operation(300)
    def return_orphans(self, timeout_seconds: float) -> Counter[str]:
        """Give back old reservations whose cart is gone. Those of pending and of complete carts stay.

        Atomic: each reservation with its stock, in one `Transactions` run; safe with any number of workers.
        After a crash: the next call goes on.
        Raises: `Invalid`, `Unavailable`.
        """
        checks.seconds(timeout_seconds, "timeout_seconds")
        return expiry.return_orphans(self._db, self._transactions, timeout_seconds, self._clock())

    @operation(300)
    def forget_carts(self, keep_seconds: float) -> Counter[str]:
        """Delete carts that expired so long ago, at least a week, and their payment attempts; counts of both.

        A cart with an order stays with its attempts as long as the order may be cancelled or repaired, for good, and so
        does one with an attempt that is open. A week is what idempotency keys are kept for.

        Atomic: each document by itself, the attempts first; safe with any number of workers.
        After a crash: carts without some of their attempts, with which the next call goes on.
        Raises: `Invalid`, `Unavailable`.
        """
        if checks.seconds(keep_seconds, "keep_seconds") < KEEP_KEYS_SECONDS:
            raise Invalid(f"keep_seconds must be at least {KEEP_KEYS_SECONDS}, a week", field="keep_seconds")
        return expiry.forget_carts(self._db, keep_seconds, self._clock())

    @operation(reads_only=True)
    def all(self, status: str = "active", *, cursor: str | None = None, limit: int = 50) -> Page[Cart]:
        """Carts in a status, the longest untouched first.

        Raises: `Invalid`.
        """
        if status not in get_args(CartStatus):
            raise Invalid(f"status must be one of {', '.join(get_args(CartStatus))}", field="status")
        return cast(Page[Cart], page(self._db, queries.CARTS, cursor=cursor, limit=limit, status=status))

    @operation(reads_only=True)
    def payments_of(self, cart_id: str) -> list[Payment]:
        """The cart's payment attempts, first to last."""
        checks.identifier(cart_id, "cart")
        return [cast(Payment, payment) for payment in queries.PAYMENTS_OF_CART.find(self._db, cart_id=cart_id)]
