"""Systems 4 to 7: catalog, categories, carts with inventory, and orders."""

from squinney.commerce.carts import Carts
from squinney.commerce.documents import COLLECTIONS
from squinney.commerce.errors import (
    CartClosed,
    CartEmpty,
    CartLimit,
    InadequateInventory,
    OrderFixed,
    OrderLimit,
    PaymentDeclined,
    PaymentRefunded,
    PaymentUnsettled,
    UnknownCart,
    UnknownLine,
    UnknownOrder,
    UnknownProduct,
    WrongCurrency,
)
from squinney.commerce.inventory import Inventory
from squinney.commerce.orders import Orders
from squinney.commerce.payments import Attempt, Charge, PaymentGateway, TestGateway
from squinney.commerce.queries import QUERIES

__all__ = [
    "COLLECTIONS",
    "QUERIES",
    "Attempt",
    "CartClosed",
    "CartEmpty",
    "CartLimit",
    "Carts",
    "Charge",
    "InadequateInventory",
    "Inventory",
    "OrderFixed",
    "OrderLimit",
    "Orders",
    "PaymentDeclined",
    "PaymentGateway",
    "PaymentRefunded",
    "PaymentUnsettled",
    "TestGateway",
    "UnknownCart",
    "UnknownLine",
    "UnknownOrder",
    "UnknownProduct",
    "WrongCurrency",
]
