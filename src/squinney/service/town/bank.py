"""The town's bank: an account for each person and business, and a year of statements."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from bson.timestamp import Timestamp

from squinney.mongo.schema import Document
from squinney.service.links.ad_payments import INCOME
from squinney.service.links.order_payments import TILL
from squinney.service.town.orders import TownOrder, account_of, sales, transfer_of
from squinney.service.town.parts import Town, insert
from squinney.service.town.people import people
from squinney.service.town.products import id_from

OPENED = 364  # days ago
# Name and opening balance in cents, by the short name used below.
BUSINESSES = {
    "shop": ("Record and film shop", 1_500_000),
    "bakery": ("Okafor's bakery", 900_000),
    "chandlery": ("Pell's chandlery", 2_400_000),
    "inn": ("The Brass Fiddle", 4_900_000),
    "ferry": ("The night ferry", 11_400_000),
    "library": ("The library", 2_800_000),
    "office": ("Harbour office", 18_900_000),
    "school": ("The school", 8_400_000),
    "magazine": ("The magazine, advertisements", 0),
}
# Who pays whose wage, how much it is, and the monthly rent.
WAGES = {
    "ada": ("office", 214_000, 62_000), "ben": ("bakery", 196_000, 70_000), "carla": ("office", 231_000, 58_000),
    "dev": ("ferry", 242_000, 76_000), "eva": ("office", 205_000, 49_000), "farid": ("school", 268_000, 81_000),
    "grace": ("school", 239_000, 55_000), "hana": ("library", 188_000, 60_000), "ivan": ("chandlery", 121_000, 31_000),
    "june": ("library", 247_000, 64_000), "kofi": ("inn", 158_000, 40_000), "lena": ("office", 402_000, 98_000),
    "pell": ("chandlery", 222_000, 66_000), "bess": ("inn", 219_000, 72_000),
}  # fmt: skip
TREATS = [
    ("bakery", "bread and a plait", 480, 1_450),
    ("bakery", "sourdough, two loaves", 980, 980),
    ("inn", "chowder and tea", 1_180, 2_460),
    ("inn", "Friday at the Fiddle", 850, 3_900),
    ("chandlery", "rope, ten fathoms", 1_900, 2_700),
    ("chandlery", "lamp oil", 640, 1_280),
    ("ferry", "night ferry, one berth", 2_400, 2_400),
    ("ferry", "night ferry, a chair", 900, 1_800),
]
# Advertiser, days ago, amount and campaign.
ADS = [
    ("chandlery", 60, 42_000, "pell:lanterns"),
    ("inn", 45, 28_000, "fiddle:fridays"),
    ("ferry", 40, 60_000, "ferry:winter"),
    ("bakery", 33, 18_000, "bakery:412"),
    ("library", 20, 9_000, "library:evenings"),
    ("shop", 14, 24_000, "shop:sodium"),
]


@dataclass(frozen=True)
class PastTransfer:
    """A transfer of the year."""

    at: datetime
    src: str
    dst: str
    amount: int
    memo: str
    about: str = ""
    transfer: str = ""


def load(town: Town) -> None:
    """Load the accounts and their entries.

    Atomic: one transaction.
    After a crash: nothing remains.
    """
    balances, entries = {}, []
    opened = town.ago(OPENED)
    for name, (_, opening, _) in _owners().items():
        balances[name] = opening
        if opening:
            entries.append(
                _entry(f"{account_of(name)}-opening", name, None, None, opening, opened, "opening balance", 0)
            )
    for number, move in enumerate(sorted(_moves(town), key=lambda move: move.at), 1):
        transfer = move.transfer or id_from("transfer", number)
        for side, name, other, amount in (
            ("out", move.src, move.dst, -move.amount),
            ("in", move.dst, move.src, move.amount),
        ):
            balances[name] += amount
            entry = _entry(f"{transfer}-{side}", name, other, transfer, amount, move.at, move.memo, number)
            entries.append({**entry, "about": move.about} if move.about else entry)
    accounts = [_account(name, shown, balances[name], opened, owner) for name, (shown, _, owner) in _owners().items()]
    insert(town.db, "town: bank", {"ledger.accounts": accounts, "ledger.entries": entries})


def _owners() -> dict[str, tuple[str, int, str | None]]:
    """Return the name, the opening balance and the owner of each account."""
    rng = random.Random("openings")
    own = {
        user: (f"{person.name}, current account", rng.randint(90, 620) * 1_000, person.id)
        for user, person in people().items()
    }
    houses = {"shop": TILL, "magazine": INCOME}  # so that what people pay later goes to the same accounts
    businesses = {name: (shown, opening, houses.get(name)) for name, (shown, opening) in BUSINESSES.items()}
    return {**own, **businesses}


def _account(name: str, shown: str, balance: int, opened: datetime, owner: str | None) -> Document:
    account: Document = {
        "_id": account_of(name),
        "name": shown,
        "currency": "EUR",
        "balance": balance,
        "opened_at": opened,
    }
    return account if owner is None else {**account, "owner": owner}


def _entry(
    entry_id: str, name: str, other: str | None, transfer: str | None, amount: int, at: datetime, memo: str, number: int
) -> Document:
    entry: Document = {
        "_id": entry_id,
        "account_id": account_of(name),
        "transfer_id": transfer,
        "amount": amount,
        "currency": "EUR",
        "at": at,
        "memo": memo,
        "order": Timestamp(int(at.timestamp()), number),
    }
    return entry if other is None else {**entry, "other_id": account_of(other)}


def _paid(sale: TownOrder) -> Iterator[PastTransfer]:
    if sale.kind != "unpaid" and not sale.by_card:
        yield PastTransfer(sale.at, sale.user, "shop", sale.total, sale.memo, sale.path, transfer_of(sale.id))
        if sale.kind == "refunded":
            refund = transfer_of(sale.id, "refund")
            yield PastTransfer(sale.ended, "shop", sale.user, sale.total, f"refund of {sale.memo}", sale.path, refund)


def _moves(town: Town) -> Iterator[PastTransfer]:
    rng = random.Random("moves")
    for user, (employer, wage, rent) in WAGES.items():
        for days in range(345, 5, -30):
            at = town.ago(days) - timedelta(minutes=len(user) + days % 7)
            month = f"{at:%B}"
            yield PastTransfer(at, employer, user, wage, f"wage, {month}")
            yield PastTransfer(at + timedelta(days=2), user, "office", rent, f"rent, {month}")
        for days in range(340, 0, -11):
            shop, memo, low, high = rng.choice(TREATS)
            at = town.ago(days - rng.random() * 4) if days > 5 else town.ago(days)
            yield PastTransfer(at, user, shop, rng.randrange(low, high + 1, 10), memo)
    for sale in sales(town.now):
        yield from _paid(sale)
    for advertiser, days, amount, campaign in ADS:
        about = f"/ads/campaigns/{quote(campaign)}"
        yield PastTransfer(town.ago(days), advertiser, "magazine", amount, f"ads of {campaign}", about)
    for days in range(330, 0, -30):
        at = town.ago(days)
        for payer, memo, amount in (("office", "lighthouse and library", 900_000), ("office", "school", 800_000)):
            yield PastTransfer(at, payer, "library" if "library" in memo else "school", amount, memo)
        yield PastTransfer(at, "inn", "bakery", 186_000, "bread and fish, monthly")
        yield PastTransfer(at, "ferry", "chandlery", 254_000, "ropes and oil")
        yield PastTransfer(at, "school", "inn", 210_000, "lunch for two classes")
        yield PastTransfer(at, "ferry", "office", 390_000, "berth and harbour dues")
        yield PastTransfer(at, "library", "shop", 64_000, "records for the reading room")
