"""Systems 4 to 7: catalog, categories, carts with inventory, and orders."""

from squinney.commerce.carts import queries as cart_queries
from squinney.commerce.carts.carts import Carts
from squinney.commerce.carts.documents import CART_COLLECTIONS, STOCK_COLLECTIONS
from squinney.commerce.carts.inventory import Inventory
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
    DepthLimit,
    InadequateInventory,
    OrderFixed,
    OrderLimit,
    PaymentDeclined,
    PaymentRefunded,
    PaymentUnsettled,
    ProductReserved,
    SlugTaken,
    UnknownCart,
    UnknownCategory,
    UnknownLine,
    UnknownOrder,
    UnknownPayment,
    UnknownProduct,
    WrongCurrency,
)
from squinney.commerce.jobs import JOBS, gateway_for
from squinney.commerce.orders import queries as order_queries
from squinney.commerce.orders.documents import ORDER_COLLECTIONS, TEST_GATEWAY
from squinney.commerce.orders.orders import Orders
from squinney.commerce.orders.payments import Attempt, Charge, PaymentGateway, TestGateway
from squinney.commerce.repair import find_problems, repair

COLLECTIONS = [PRODUCTS, *CATEGORY_COLLECTIONS, *STOCK_COLLECTIONS, *CART_COLLECTIONS, *ORDER_COLLECTIONS, TEST_GATEWAY]
QUERIES = [
    *cart_queries.QUERIES,
    *order_queries.QUERIES,
    *category_queries.QUERIES,
    *catalog_queries.QUERIES,
    *search.QUERIES,
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
    "DepthLimit",
    "FacetCache",
    "InadequateInventory",
    "Inventory",
    "OrderFixed",
    "OrderLimit",
    "Orders",
    "PaymentDeclined",
    "PaymentGateway",
    "PaymentRefunded",
    "PaymentUnsettled",
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
