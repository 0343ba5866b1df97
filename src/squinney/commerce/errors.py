"""What commerce refuses."""

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
    """Fewer units are available than were asked for."""


class CartClosed(Conflict):
    """The cart is no longer active."""


class CartEmpty(Conflict):
    """There is nothing in the cart."""


class WrongCurrency(Conflict):
    """The price is in another currency."""


class PaymentDeclined(Conflict):
    """The payment provider declined; the cart is active again."""


class PaymentRefunded(Conflict):
    """The goods were gone when the payment arrived; it was given back."""


class PaymentUnsettled(Unavailable):
    """The payment provider gave no answer; the attempt stays open until `settle_payments` learns its end."""


class ProductReserved(Conflict):
    """The product is in carts."""


class OrderFixed(Conflict):
    """The order's state does not allow this change."""


class CategoryNotEmpty(Conflict):
    """The category has children."""


class SlugTaken(Conflict):
    """Another category has this slug."""

    code = "category-slug-taken"


class CartLimit(LimitReached):
    """A cart holds no more lines, units or value."""


class OrderLimit(LimitReached):
    """An order holds no more lines, units or value."""


class DepthLimit(LimitReached):
    """The category tree may not grow deeper."""
