"""Further steps of a checkout's caller: stored with the attempt, because another process may have to complete it."""

from __future__ import annotations

from collections.abc import Sequence

import bson
from bson.codec_options import DatetimeConversion

from squinney.commerce.errors import PaymentRefunded
from squinney.commerce.payments.documents import Payment
from squinney.mongo.pinned import CODEC
from squinney.mongo.schema import Document
from squinney.transactions import Plan, Step

ANY_DATE = CODEC.with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO)  # also after the year 9999
FIELDS = ("id", "guard", "update", "insert", "delete", "array_filters", "route")


def checking_steps(further: Sequence[Step]) -> list[Step]:
    """Return steps that check the guards of others, so that a checkout is refused before it is charged.

    Whether the id of an insert is free is found out at the end.
    """
    guarded = [step for step in Plan(further).steps if step.insert is None]
    return [Step(step.name, step.id, guard=step.guard, refused=step.refused, route=step.route) for step in guarded]


def stored(further: Sequence[Step]) -> Document:
    """Return the field of an attempt that holds the steps; encoded, because they contain operators."""
    plain = [{"collection": step.name, **{name: getattr(step, name) for name in FIELDS}} for step in further]
    return {"also": bson.encode({"steps": plain}, codec_options=CODEC)} if plain else {}


def further_steps(payment: Payment) -> list[Step]:
    """Return the steps that were stored with an attempt."""
    steps = bson.decode(payment["also"], ANY_DATE)["steps"] if "also" in payment else []
    refused = PaymentRefunded("a further step was refused; the payment was refunded", payment_id=payment["_id"])
    return [Step(**step, refused=lambda _: refused) for step in steps]


def without_further_steps(payment: Payment) -> Payment:
    """Return the attempt as callers get it."""
    return {name: value for name, value in payment.items() if name != "also"}  # type: ignore[return-value]
