"""What commerce refuses."""

from squinney.errors import Conflict, LimitReached, NotFound, Unavailable


class UnknownProduct(NotFound):
    """There is no such product."""

    code = "unknown-product"


class UnknownCategory(NotFound):
    """There is no such category."""

    code = "unknown-category"


class UnknownCart(NotFound):
    """There is no such cart."""

    code = "unknown-cart"


class UnknownLine(NotFound):
    """The cart or order has no line with this SKU."""

    code = "unknown-line"


class UnknownOrder(NotFound):
    """There is no such order."""

    code = "unknown-order"


class UnknownPayment(NotFound):
    """There is no such payment attempt."""

    code = "unknown-payment"


class InadequateInventory(Conflict):
    """Fewer units are available than were asked for."""

    code = "inadequate-inventory"


class CartClosed(Conflict):
    """The cart is no longer active."""

    code = "cart-closed"


class CartEmpty(Conflict):
    """There is nothing in the cart."""

    code = "cart-empty"


class WrongCurrency(Conflict):
    """The price is in another currency."""

    code = "wrong-currency"


class PaymentDeclined(Conflict):
    """The payment provider declined; the cart is active again."""

    code = "payment-declined"


class PaymentRefunded(Conflict):
    """The goods were gone when the payment arrived; it was given back."""

    code = "payment-refunded"


class PaymentUnsettled(Unavailable):
    """The payment provider gave no answer; the attempt stays open until `settle_payments` learns its end."""

    code = "payment-unsettled"


class ProductReserved(Conflict):
    """The product is in carts."""

    code = "product-reserved"


class OrderFixed(Conflict):
    """The order's state does not allow this change."""

    code = "order-fixed"


class CategoryNotEmpty(Conflict):
    """The category has children."""

    code = "category-not-empty"


class SlugTaken(Conflict):
    """Another category has this slug."""

    code = "category-slug-taken"


class CartLimit(LimitReached):
    """A cart holds no more lines, units or value."""

    code = "cart-limit"


class OrderLimit(LimitReached):
    """An order holds no more lines, units or value."""

    code = "order-limit"


class DepthLimit(LimitReached):
    """The category tree may not grow deeper."""

    code = "depth-limit"
