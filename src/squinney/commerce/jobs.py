"""The shop's periodic jobs, with the payment provider that the environment names."""

from __future__ import annotations

import os
from collections.abc import Mapping

from squinney.commerce.carts import Carts
from squinney.commerce.payments import PaymentGateway, TestGateway
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job

STRIPE_KEY = "SQUINNEY_STRIPE_KEY"
CART_SECONDS = 30 * 60
STALLED_SECONDS = 60


def gateway_for(db: Db, environment: Mapping[str, str] = os.environ) -> PaymentGateway:
    """Stripe where `SQUINNEY_STRIPE_KEY` is set, else the test gateway, which charges nobody."""
    if key := environment.get(STRIPE_KEY):
        from squinney.commerce.stripe_gateway import StripeGateway  # only who uses it needs the package

        return StripeGateway(key)
    return TestGateway(db)


JOBS = [
    Job(
        "expire-carts",
        every_seconds=60,
        run=lambda db: Carts(db, payments=gateway_for(db)).expire_carts(CART_SECONDS),
        what="gives back what carts hold that nobody touched for half an hour",
    ),
    Job(
        "return-orphans",
        every_seconds=300,
        run=lambda db: Carts(db, payments=gateway_for(db)).return_orphans(CART_SECONDS),
        what="gives back reservations whose cart is gone",
    ),
    Job(
        "settle-payments",
        every_seconds=15,
        run=lambda db: Carts(db, payments=gateway_for(db)).settle_payments(STALLED_SECONDS),
        what="learns how stalled payments ended, and completes, reopens or refunds",
    ),
]
