"""`Carts`: adding a product reserves stock, abandoning or expiry returns it, and checkout sells it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast, get_args

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.commerce.carts import expiry, queries, rules
from squinney.commerce.carts.checkout import Checkout
from squinney.commerce.carts.documents import Cart, CartStatus
from squinney.commerce.documents import CURRENCY, MAX_QTY, WITHOUT_CHECKS
from squinney.commerce.errors import UnknownCart, UnknownLine, UnknownProduct
from squinney.commerce.orders.documents import Order
from squinney.commerce.orders.orders import Orders
from squinney.commerce.payments import queries as payment_queries
from squinney.commerce.payments.direct import Move
from squinney.commerce.payments.documents import Payment
from squinney.commerce.payments.further import without_further_steps
from squinney.commerce.payments.gateway import PaymentGateway
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, page
from squinney.transactions import KEEP_KEYS_SECONDS, Busy, Key, Plan, Step, Transactions


class Carts:
    """Shopping carts that reserve stock, so that no unit is sold twice.

    Several instances may use the same carts and stock at once, also in several processes. `payments` is the payment
    provider. `orders` creates the orders; the default uses the same database.
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
        self._currency = checks.text(currency, "currency", max_length=3, pattern=CURRENCY)
        orders = orders or Orders(db, payments=payments, transactions=self._transactions, clock=clock)
        self._checkout = Checkout(db, payments, orders, self._transactions, clock)

    @operation()
    def new(self, *, currency: str | None = None, customer: str | None = None, key: str | Key | None = None) -> Cart:
        """Create an empty cart; a repeat with the same `key` returns the same cart.

        Atomic: one insert. With a key, the key's record is written first; it contains the cart, which is then inserted.
        After a crash: at most an empty cart, which expires later. A repeat with the key inserts a missing cart.
        Raises: `Invalid`; with a key also `KeyReused`.
        """
        now = self._clock()
        cart: Cart = {
            "_id": secrets.token_hex(16),
            "status": "active",
            "created_at": now,
            "last_modified": now,
            "items": [],
            "currency": checks.text(currency or self._currency, "currency", max_length=3, pattern=CURRENCY),
            "version": 1,
            "attempt": 0,
        }
        if customer is not None:
            cart["customer"] = checks.identifier(customer, "customer")
        if key is None:
            self._db["commerce.carts"].insert_one(dict(cart))
            return cart
        cart = self._run("new", lambda: Plan([], result=cart), {"currency": currency, "customer": customer}, key)
        self._db["commerce.carts"].update_one({"_id": cart["_id"]}, {"$setOnInsert": dict(cart)}, upsert=True)
        return cart

    @operation(reads_only=True)
    def get(self, cart_id: str) -> Cart:
        """Return the cart.

        Raises: `UnknownCart`.
        """
        checks.identifier(cart_id, "cart")
        cart = queries.CART.find_one(self._db, cart_id=cart_id)
        if cart is None:
            raise UnknownCart(f"there is no cart {cart_id}", cart_id=cart_id)
        return cast(Cart, cart)

    @operation(reads_only=True)
    def open_of(self, customer: str) -> Cart | None:
        """Return the customer's newest active or pending cart with something in it, wherever they began it.

        Raises: `Invalid`.
        """
        checks.identifier(customer, "customer")
        return cast(Cart | None, queries.OPEN_CARTS_OF.find_one(self._db, customer=customer))

    @operation()
    def claim(self, cart_id: str, customer: str) -> Cart:
        """Assign a guest's cart to the customer who has signed in since.

        A cart that already has a customer keeps it. A cart that is not active stays unassigned.

        Raises: `Invalid`, `UnknownCart`.
        """
        owner = {"customer": checks.identifier(customer, "customer")}
        # guard: a pending cart is not assigned to a customer
        # guard: a cart with a customer is not assigned to another customer
        where = {"_id": checks.identifier(cart_id, "cart"), "status": "active", "customer": None}
        # The version tells a checkout that has read the cart without its customer.
        # guard: a checkout that has read the cart without its customer plans again
        self._db["commerce.carts"].update_one(where, {"$set": owner, "$inc": {"version": 1}})
        return self.get(cart_id)

    @operation()
    def add_item(
        self, cart_id: str, sku: str, qty: int = 1, *, key: str | Key | None = None, also: Sequence[Step] = ()
    ) -> Cart:
        """Add `qty` units of a product to the cart. A new line gets the current price; an existing line keeps its own.

        Atomic: the cart's line, the stock and the reservation change in one `Transactions` run; the guard on the
        stock decides.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCart`, `UnknownProduct`, `CartClosed`, `InadequateInventory`, `CartLimit`,
        `WrongCurrency`, `Busy`, `Unavailable`; with a key also `KeyReused`.
        """
        checks.identifier(cart_id, "cart")
        checks.identifier(sku, "sku")
        checks.integer(qty, "qty", minimum=1, maximum=MAX_QTY)

        def plan() -> Plan:
            cart, product = self._cart_and_product(cart_id, sku)
            if line := rules.find_line(cart, sku):
                return rules.quantity_plan(cart, line, line["qty"] + qty, self._clock())
            if product is None:
                raise UnknownProduct(f"there is no product {sku}", sku=sku)
            return rules.quantity_plan(cart, rules.new_line(cart, product), qty, self._clock(), product)

        return self._run("add", plan, {"cart": cart_id, "sku": sku, "qty": qty}, key, also)

    def _cart_and_product(self, cart_id: str, sku: str) -> tuple[Cart, Document | None]:
        cart = next(queries.CART_AND_PRODUCT.run(self._db, cart_id=cart_id, sku=sku), None)
        if cart is None:
            raise UnknownCart(f"there is no cart {cart_id}", cart_id=cart_id)
        product = next(iter(cart.pop("product")), None)
        return cast(Cart, cart), product

    @operation()
    def set_quantity(
        self, cart_id: str, sku: str, qty: int, *, key: str | Key | None = None, also: Sequence[Step] = ()
    ) -> Cart:
        """Set the quantity of a cart's line; 0 removes the line. The price of the line does not change.

        Atomic: as `add_item`.
        After a crash: as `add_item`.
        Raises: `Invalid`, `UnknownCart`, `UnknownLine`, `CartClosed`, `InadequateInventory`, `CartLimit`, `Busy`,
        `Unavailable`; with a key also `KeyReused`.
        """
        checks.identifier(sku, "sku")
        checks.integer(qty, "qty", minimum=0, maximum=MAX_QTY)

        def plan() -> Plan:
            cart = self.get(cart_id)
            if line := rules.find_line(cart, sku):
                return rules.quantity_plan(cart, line, qty, self._clock())
            raise UnknownLine(f"the cart has no line with SKU {sku}", sku=sku)

        return self._run("set", plan, {"cart": cart_id, "sku": sku, "qty": qty}, key, also)

    @operation()
    def remove_item(self, cart_id: str, sku: str, *, key: str | Key | None = None, also: Sequence[Step] = ()) -> Cart:
        """Remove a line from the cart and return its units to stock.

        Atomic: as `add_item`.
        After a crash: as `add_item`.
        Raises: as `set_quantity`.
        """
        return self.set_quantity(cart_id, sku, 0, key=key, also=also)

    def _run(
        self,
        kind: str,
        plan: Callable[[], Plan],
        arguments: dict[str, object],
        key: str | Key | None,
        also: Sequence[Step] = (),
    ) -> Cart:
        outcome = self._transactions.run(f"cart {kind}", lambda: plan().also(also), key=key, arguments=arguments)
        return cast(Cart, outcome.result)

    @operation()
    def abandon(self, cart_id: str) -> Cart:
        """End the cart and return its goods to stock; a cart that has expired already does not change.

        Atomic: one update closes the cart to changes; then one `Transactions` run returns all its goods.
        After a crash: the cart is `expiring`, and the job `expire-carts` finishes it.
        Raises: `UnknownCart`, `CartClosed` for a cart that is pending or complete, `Busy`, `Unavailable`.
        """
        checks.identifier(cart_id, "cart")
        if not expiry.begin(self._db, cart_id):
            cart = self.get(cart_id)
            if cart["status"] == "active":
                raise Busy("another operation is changing the cart; try again", cart_id=cart_id)
            if cart["status"] in ("pending", "complete"):
                raise rules.cart_closed(cart)
        expiry.finish(self._db, self._transactions, cart_id, self._clock())
        return self.get(cart_id)

    def checkout(self, cart_id: str, *, key: str, also: Sequence[Step] = ()) -> Order:
        """Charge for the cart and create its order; a repeat with the same key returns the same order.

        `also` are further steps, which are stored with the attempt and happen with the sale, whichever process
        completes it. Their guards are checked before the charge; if one refuses after it, the payment is refunded, and
        the cart is active again.

        Atomic: one run makes the cart pending and records the payment attempt. After the provider's response, a second
        run records payment, order and sale, or reopens the cart.
        After a crash: the cart is pending and keeps its goods until `settle-payments` learns the attempt's outcome.
        Raises: `Invalid`, `UnknownCart`, `CartEmpty`, `CartClosed`, `CheckoutRunning` while another checkout of the
        cart is running, `PaymentDeclined` and `PaymentNeedsAction` (the cart is active again), `PaymentRefunded`,
        `PaymentUnsettled`, `Busy`, `Unavailable`; the errors of `also`.
        """
        checks.identifier(cart_id, "cart")
        checks.text(key, "key", min_length=1, max_length=200)
        return self._checkout.run(cart_id, key, also)

    @operation()
    def buy(self, cart_id: str, move: Move, *, key: str, customer: str, also: Sequence[Step] = ()) -> Order:
        """Sell the customer's cart for money that `move` moves in the same run, once per `key`; return the order.

        `move` is called with the payment, and returns the steps that pay for it, such as those of a transfer. A cart
        that costs nothing is sold without it. `also` are further steps, which happen with it or not at all.

        Atomic: one run sells the goods, records payment and order, and moves the money.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCart`, `CartEmpty`, `CartClosed`, `CheckoutRunning`, `PaymentUnsettled` after a
        `checkout` with the same key, `Busy`, `Unavailable`; the errors of `move`, of its steps and of `also`.
        """
        checks.identifier(cart_id, "cart")
        checks.text(key, "key", min_length=1, max_length=200)
        return self._checkout.buy(cart_id, checks.identifier(customer, "customer"), key, move, also)

    def settle(self, payment_id: str) -> Payment:
        """Ask the provider for the state of a payment attempt and apply it. A provider's webhook should call this.

        If the payment succeeded after its cart expired, the goods are taken from the available stock, or the payment is
        refunded.

        Atomic: one run records the attempt's outcome and everything that follows from it.
        After a crash: the attempt is still open, or it is settled.
        Raises: `UnknownPayment`, `PaymentUnsettled` if the provider does not respond, `Busy`, `Unavailable`.
        """
        checks.identifier(payment_id, "payment")
        return without_further_steps(self._checkout.settling.settle(payment_id, cancel=False))

    def settle_payments(self, stalled_seconds: float = 60) -> Counter[str]:
        """Settle every payment attempt that has been open for longer than `stalled_seconds`; return counts by outcome.

        A payment that the provider has not captured is cancelled there before the cart is reopened, so that a late
        capture fails.

        Atomic: each attempt separately; any number of workers may run this at once.
        After a crash: the next call settles the remaining attempts.
        Raises: `Invalid`, `Unavailable`.
        """
        return self._checkout.settling.settle_stalled(checks.seconds(stalled_seconds, "stalled_seconds"))

    @operation(300)
    def expire_carts(self, timeout_seconds: float) -> Counter[str]:
        """Expire active carts that did not change for `timeout_seconds`, and finish carts that are `expiring`.

        Atomic: each cart separately; any number of workers may run this at once.
        After a crash: the next call finishes the remaining carts.
        Raises: `Invalid`, `Unavailable`.
        """
        checks.seconds(timeout_seconds, "timeout_seconds")
        return expiry.expire_carts(self._db, self._transactions, timeout_seconds, self._clock())

    @operation(300)
    def return_orphans(self, timeout_seconds: float) -> Counter[str]:
        """Return reservations older than `timeout_seconds` to stock if their cart is missing or expired.

        Atomic: each reservation and its stock in one `Transactions` run; any number of workers may run this at once.
        After a crash: the next call returns the remaining reservations.
        Raises: `Invalid`, `Unavailable`.
        """
        checks.seconds(timeout_seconds, "timeout_seconds")
        return expiry.return_orphans(self._db, self._transactions, timeout_seconds, self._clock())

    @operation(300)
    def forget_carts(self, keep_seconds: float) -> Counter[str]:
        """Delete carts that expired more than `keep_seconds` ago, with their payment attempts; return counts of both.

        Carts with an order are kept forever, because cancelling or repairing the order needs them. Carts with an open
        attempt are kept too. `keep_seconds` is at least a week, for which idempotency keys are kept.

        Atomic: each document separately, the attempts first; any number of workers may run this at once.
        After a crash: some carts lack some of their attempts; the next call deletes the rest.
        Raises: `Invalid`, `Unavailable`.
        """
        # guard: an expired cart is kept at least as long as its idempotency key
        if checks.seconds(keep_seconds, "keep_seconds") < KEEP_KEYS_SECONDS:
            raise Invalid(f"keep_seconds must be at least {KEEP_KEYS_SECONDS}, a week", field="keep_seconds")
        return expiry.forget_carts(self._db, keep_seconds, self._clock())

    @operation(reads_only=True)
    def all(self, status: str = "active", *, cursor: str | None = None, limit: int = 50) -> Page[Cart]:
        """Return a page of the carts with this status, the least recently modified first.

        Raises: `Invalid`.
        """
        if status not in get_args(CartStatus):
            raise Invalid(f"status must be one of {', '.join(get_args(CartStatus))}", field="status")
        return cast(Page[Cart], page(self._db, queries.CARTS, cursor=cursor, limit=limit, status=status))

    @operation(reads_only=True)
    def payments_of(self, cart_id: str) -> list[Payment]:
        """Return the payment attempts of a cart, oldest first."""
        checks.identifier(cart_id, "cart")
        payments = payment_queries.PAYMENTS_OF_CART.find(self._db, cart_id=cart_id, projection=WITHOUT_CHECKS)
        return [without_further_steps(cast(Payment, payment)) for payment in payments]
