"""The shop's periodic jobs, and the payment provider that the environment selects."""

from __future__ import annotations

import os
from collections.abc import Mapping

from squinney.commerce.carts.carts import Carts
from squinney.commerce.payments.gateway import PaymentGateway
from squinney.commerce.payments.test_gateway import TestGateway
from squinney.commerce.pictures.pictures import Pictures
from squinney.errors import Invalid
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job
from squinney.settings import secret_in

STRIPE_KEY = "SQUINNEY_STRIPE_KEY"
KEEP_CARTS_DAYS = "SQUINNEY_KEEP_CARTS_DAYS"
CART_SECONDS = 30 * 60
STALLED_SECONDS = 60


def gateway_for(db: Db, environment: Mapping[str, str] = os.environ) -> PaymentGateway:
    """Return the Stripe gateway if `SQUINNEY_STRIPE_KEY` is set, else the test gateway; neither moves money.

    Raises: `Invalid` if the key is not a Stripe test key.
    """
    if key := secret_in(environment, STRIPE_KEY):
        # Imported here, because the package `stripe` is an optional dependency.
        from squinney.commerce.payments.stripe_gateway import StripeGateway

        return StripeGateway(key)
    return TestGateway(db)


def keep_seconds_for(environment: Mapping[str, str] = os.environ) -> int:
    """Return how long expired carts are kept: `SQUINNEY_KEEP_CARTS_DAYS`, by default 90 days.

    Raises: `Invalid`.
    """
    days = environment.get(KEEP_CARTS_DAYS) or "90"
    # guard: expired carts are kept for at least a week
    if not (days.isascii() and days.isdigit() and len(days) <= 5 and 7 <= int(days) <= 36_500):
        raise Invalid(f"{KEEP_CARTS_DAYS} must be a whole number from 7 to 36500", field=KEEP_CARTS_DAYS)
    return int(days) * 86_400


JOBS = [
    Job(
        "expire-carts",
        every_seconds=60,
        run=lambda db: Carts(db, payments=gateway_for(db)).expire_carts(CART_SECONDS),
        what="expires carts that did not change for half an hour, and returns their goods to stock",
    ),
    Job(
        "return-orphans",
        every_seconds=300,
        run=lambda db: Carts(db, payments=gateway_for(db)).return_orphans(CART_SECONDS),
        what="returns reservations to stock whose cart is missing or expired",
    ),
    Job(
        "settle-payments",
        every_seconds=15,
        run=lambda db: Carts(db, payments=gateway_for(db)).settle_payments(STALLED_SECONDS),
        what="asks the provider about stalled payments, and completes, reopens or refunds them",
    ),
    Job(
        "forget-carts",
        every_seconds=3_600,
        run=lambda db: Carts(db, payments=gateway_for(db)).forget_carts(keep_seconds_for()),
        what="deletes carts that expired long ago, with their payment attempts",
    ),
    Job(
        "forget-pictures",
        every_seconds=3_600,
        run=lambda db: Pictures(db).forget_lost(),
        what="deletes the pictures of products that were removed",
    ),
]
