"""The errors that commerce raises."""

from squinney.errors import Conflict, LimitReached, NotFound, Unavailable


class UnknownProduct(NotFound):
    """There is no such product."""


class UnknownCategory(NotFound):
    """There is no such category."""


class UnknownCart(NotFound):
    """There is no such cart."""


class UnknownLine(NotFound):
    """The cart or order has no line with this SKU."""


class UnknownOrder(NotFound):
    """There is no such order."""


class UnknownPayment(NotFound):
    """There is no such payment attempt."""


class InadequateInventory(Conflict):
    """Fewer units are available than were requested."""


class CartClosed(Conflict):
    """The cart is no longer active."""


class CartEmpty(Conflict):
    """The cart has no lines, so there is nothing to pay for."""


class CheckoutRunning(Conflict):
    """Another checkout of the cart is running."""


class WrongCurrency(Conflict):
    """The price is not in the currency of the cart or order."""


class PaymentDeclined(Conflict):
    """The payment provider declined the charge; the cart is active again."""


class PaymentNeedsAction(Conflict):
    """The buyer would have to confirm the payment, which the shop cannot ask for; the cart is active again."""


class PaymentRefunded(Conflict):
    """The goods were no longer available when the payment succeeded, or a further step was refused: it was refunded."""


class PaymentUnsettled(Unavailable):
    """The payment provider has not reported an outcome; the attempt stays open until `settle_payments` learns it."""


class ProductReserved(Conflict):
    """Units of the product are reserved in carts."""


class OrderFixed(Conflict):
    """The status of the order does not allow this change."""


class CategoryNotEmpty(Conflict):
    """The category has children."""


class CartLimit(LimitReached):
    """The cart would exceed its limit of lines, units or value."""


class OrderLimit(LimitReached):
    """The order would exceed its limit of lines, units or value."""


class DepthLimit(LimitReached):
    """The category tree would exceed its maximum depth."""
