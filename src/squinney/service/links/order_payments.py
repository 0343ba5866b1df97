"""Orders paid from an account of the ledger: the order and its transfer are one transaction, and so is a refund."""

from __future__ import annotations

from urllib.parse import quote

from squinney.commerce import Carts, Moved, Orders, Payment
from squinney.commerce.orders.documents import Order
from squinney.ledger import Account, Accounts, Transfer, UnknownAccount
from squinney.mongo.deadlines import operation
from squinney.service.links.house_accounts import house_account, open_accounts
from squinney.system import Assembled

TILL = "squinney:shop"  # the owner of the shop's accounts, one for each currency


class OrderPayments:
    """Lets members pay for their carts from their accounts."""

    def __init__(self, carts: Carts, accounts: Accounts) -> None:
        self._carts = carts
        self._accounts = accounts

    @operation(reads_only=True)
    def accounts_of(self, owner: str, currency: str) -> list[Account]:
        """List the open accounts of a member in a currency."""
        return open_accounts(self._accounts, owner, currency)

    @operation()
    def pay(self, cart_id: str, account_id: str, *, owner: str, key: str) -> Order:
        """Buy a cart of `owner` with money from an account of `owner`, once per `key`.

        Atomic: order, sale, payment and transfer are one `Transactions` run. The first payment in a currency opens the
        till before it.
        After a crash: nothing, or a till without money.
        Raises: `UnknownAccount` also for an account of somebody else; what `Carts.buy` and `Accounts.transfer` raise.
        """
        # guard: an order is paid only from an own account
        if self._accounts.get(account_id).get("owner") != owner:
            raise UnknownAccount(f"there is no account {account_id}", account_id=account_id)

        def move(payment: Payment) -> Moved:
            return self._moved(payment, account_id, self._till(payment["currency"]), "order", customer=account_id)

        return self._carts.buy(cart_id, move, key=key, customer=owner)

    def repay(self, payment: Payment) -> Moved:
        """Return how the money of a payment goes back from the till to the account that it came from."""
        account = payment["paid_from"]
        return self._moved(payment, self._till(payment["currency"]), account, "refund of order", customer=account)

    def _moved(self, payment: Payment, src: str, dst: str, what: str, *, customer: str) -> Moved:
        order_id = payment["cart_id"]
        plan = self._accounts.plan_transfer(
            src, dst, payment["amount"], memo=f"{what} {order_id[:8]}", about=f"/shop/orders/{quote(order_id)}"
        )
        transfer: Transfer = plan.result
        return Moved(plan.steps, customer, transfer["_id"])

    def _till(self, currency: str) -> str:
        return house_account(self._accounts, TILL, "Till of the shop", currency)


def order_payments(systems: Assembled) -> OrderPayments | None:
    """Return the payments, and let cancelled orders be repaid; None unless both systems are served."""
    shop, ledger = systems.services.get("commerce"), systems.services.get("ledger")
    if not shop or not ledger:
        return None
    payments = OrderPayments(shop["carts"], ledger["accounts"])
    orders: Orders = shop["orders"]
    orders.repay = payments.repay
    return payments
