"""Systems 4 to 7: catalog, categories, carts with inventory, and orders."""

from squinney.commerce.carts import queries as cart_queries
from squinney.commerce.carts.carts import Carts
from squinney.commerce.carts.documents import CART_COLLECTIONS
from squinney.commerce.catalog import queries as catalog_queries
from squinney.commerce.catalog import search
from squinney.commerce.catalog.catalog import Catalog
from squinney.commerce.catalog.facet_cache import FacetCache
from squinney.commerce.catalog.search import PRODUCTS
from squinney.commerce.categories import queries as category_queries
from squinney.commerce.categories.categories import Categories, breadcrumbs
from squinney.commerce.categories.documents import CATEGORY_COLLECTIONS
from squinney.commerce.demo import demo
from squinney.commerce.errors import (
    CartClosed,
    CartEmpty,
    CartLimit,
    CategoryNotEmpty,
    CheckoutRunning,
    DepthLimit,
    InadequateInventory,
    OrderFixed,
    OrderLimit,
    PaymentDeclined,
    PaymentNeedsAction,
    PaymentRefunded,
    PaymentUnsettled,
    ProductReserved,
    UnknownCart,
    UnknownCategory,
    UnknownLine,
    UnknownOrder,
    UnknownPayment,
    UnknownProduct,
    WrongCurrency,
)
from squinney.commerce.inventory import queries as stock_queries
from squinney.commerce.inventory.documents import STOCK_COLLECTIONS
from squinney.commerce.inventory.inventory import Inventory
from squinney.commerce.jobs import JOBS, gateway_for
from squinney.commerce.orders import queries as order_queries
from squinney.commerce.orders.documents import ORDER_COLLECTIONS
from squinney.commerce.orders.orders import Orders
from squinney.commerce.payments import queries as payment_queries
from squinney.commerce.payments.direct import Moved
from squinney.commerce.payments.documents import PAYMENTS, Payment
from squinney.commerce.payments.gateway import Attempt, Charge, PaymentGateway
from squinney.commerce.payments.test_gateway import TEST_CHARGES, TestGateway
from squinney.commerce.pictures import queries as picture_queries
from squinney.commerce.pictures.documents import PICTURES, Picture
from squinney.commerce.pictures.pictures import Pictures
from squinney.commerce.repair import find_problems, repair
from squinney.errors import SlugTaken

COLLECTIONS = [
    PRODUCTS,
    PICTURES,
    *CATEGORY_COLLECTIONS,
    *STOCK_COLLECTIONS,
    *CART_COLLECTIONS,
    PAYMENTS,
    *ORDER_COLLECTIONS,
    TEST_CHARGES,
]
QUERIES = [
    *cart_queries.QUERIES,
    *stock_queries.QUERIES,
    *payment_queries.QUERIES,
    *order_queries.QUERIES,
    *category_queries.QUERIES,
    *catalog_queries.QUERIES,
    *search.QUERIES,
    *picture_queries.QUERIES,
]

__all__ = [
    "COLLECTIONS",
    "JOBS",
    "QUERIES",
    "Attempt",
    "CartClosed",
    "CartEmpty",
    "CartLimit",
    "Carts",
    "Catalog",
    "Categories",
    "CategoryNotEmpty",
    "Charge",
    "CheckoutRunning",
    "DepthLimit",
    "FacetCache",
    "InadequateInventory",
    "Inventory",
    "Moved",
    "OrderFixed",
    "OrderLimit",
    "Orders",
    "Payment",
    "PaymentDeclined",
    "PaymentGateway",
    "PaymentNeedsAction",
    "PaymentRefunded",
    "PaymentUnsettled",
    "Picture",
    "Pictures",
    "ProductReserved",
    "SlugTaken",
    "TestGateway",
    "UnknownCart",
    "UnknownCategory",
    "UnknownLine",
    "UnknownOrder",
    "UnknownPayment",
    "UnknownProduct",
    "WrongCurrency",
    "breadcrumbs",
    "demo",
    "find_problems",
    "gateway_for",
    "repair",
]
