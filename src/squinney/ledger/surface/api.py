"""The HTTP routes of the ledger."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from squinney.errors import Conflict
from squinney.http.bodies import Body, IgnoresReadOnlyFields
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import IdempotencyKey, service
from squinney.http.error_responses import responses
from squinney.http.response_models import model_of, page_of, signed_page
from squinney.http.routes import OneThreadRoute
from squinney.ledger import (
    Account,
    AccountClosed,
    AccountNotEmpty,
    Accounts,
    BalanceLimit,
    CurrencyMismatch,
    Entry,
    InsufficientFunds,
    Transfer,
    TransferOutcome,
    UnknownAccount,
)
from squinney.ledger.accounts import CURRENCY
from squinney.ledger.documents import MAX_AMOUNT, MAX_BALANCE
from squinney.ledger.many import MAX_TRANSFERS
from squinney.transactions import Busy, KeyReused

router = APIRouter(prefix="/api/ledger", tags=["ledger"], route_class=OneThreadRoute)

Ledger = Annotated[Accounts, Depends(service("ledger", "accounts", Accounts))]
Owner = Annotated[str | None, Query(min_length=1, max_length=200)]
Currency = Annotated[str, Field(pattern=f"^{CURRENCY}$", examples=["EUR"])]


class NewAccount(IgnoresReadOnlyFields, Body):
    """A new account. Its balance comes only from `opening` and from transfers."""

    READ_ONLY = frozenset({"id", "balance", "opened_at", "closed_at"})
    currency: Currency
    opening: int = Field(0, ge=0, le=MAX_BALANCE, description="Money that comes from outside, in minor units")
    name: str = Field("", max_length=100, examples=["Corner bakery"])
    owner: str | None = Field(
        None, min_length=1, max_length=200, description="The id of the person who can use the account on the web front"
    )


class NewTransfer(Body):
    """A new transfer."""

    src: str = Field(min_length=1, max_length=200, examples=["01k9x3v0k2f8m4q7r5t6w8y9za"])
    dst: str = Field(min_length=1, max_length=200, examples=["01k9x3v0k2f8m4q7r5t6w8y9zb"])
    amount: int = Field(ge=1, le=MAX_AMOUNT, description="In minor units", examples=[1250])
    memo: str = Field("", max_length=500, examples=["bread for a week"])


class NewTransfers(Body):
    """Many new transfers, made in this order."""

    transfers: list[NewTransfer] = Field(max_length=MAX_TRANSFERS)


AccountModel = model_of(Account, without=[])
EntryModel = model_of(Entry)
TransferModel = model_of(Transfer)
OutcomeModel = model_of(TransferOutcome, transfer=(TransferModel | None, None))


class Outcomes(BaseModel):
    """The outcomes of many transfers, in their order."""

    outcomes: list[OutcomeModel]  # type: ignore[valid-type]


class Total(BaseModel):
    """The sum of all balances in a currency."""

    currency: str
    total: int


@router.post("/accounts", status_code=201, response_model=AccountModel, responses=responses(KeyReused))
def open_account(ledger: Ledger, body: NewAccount, key: IdempotencyKey) -> Any:
    """Open an account."""
    return ledger.open(body.currency, body.opening, name=body.name, owner=body.owner, key=key)


@router.get("/accounts", response_model=page_of(AccountModel), responses=responses())
def list_accounts(
    ledger: Ledger, sign: SignCursor, owner: Owner = None, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List all accounts, or those of an owner, oldest first."""
    if owner is None:
        page = ledger.all(cursor=cursor, limit=limit)
    else:
        page = ledger.owned_by(owner, cursor=cursor, limit=limit)
    return signed_page(page, sign)


@router.get("/accounts/{account_id}", response_model=AccountModel, responses=responses(UnknownAccount))
def get_account(ledger: Ledger, account_id: str) -> Any:
    """Return an account."""
    return ledger.get(account_id)


@router.post(
    "/accounts/{account_id}/close",
    response_model=AccountModel,
    responses=responses(UnknownAccount, AccountClosed, AccountNotEmpty, Busy),
)
def close_account(ledger: Ledger, account_id: str) -> Any:
    """Close an empty account permanently."""
    return ledger.close(account_id)


@router.get("/accounts/{account_id}/statement", response_model=page_of(EntryModel), responses=responses(UnknownAccount))
def read_statement(ledger: Ledger, sign: SignCursor, account_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List the account's entries, newest first, each with the balance after it."""
    return signed_page(ledger.statement(account_id, cursor=cursor, limit=limit), sign)


TRANSFER_ERRORS: list[type[Any]] = [UnknownAccount, AccountClosed, CurrencyMismatch, InsufficientFunds, BalanceLimit]


@router.post(
    "/transfers",
    status_code=201,
    response_model=TransferModel,
    responses=responses(*TRANSFER_ERRORS, KeyReused, Busy, Conflict),
)
def make_transfer(ledger: Ledger, body: NewTransfer, key: IdempotencyKey) -> Any:
    """Move money from one account to another."""
    return ledger.transfer(body.src, body.dst, body.amount, memo=body.memo, key=key)


@router.post("/transfers/batch", response_model=Outcomes, responses=responses(KeyReused, Busy))
def make_transfers(ledger: Ledger, body: NewTransfers, key: IdempotencyKey) -> Any:
    """Make many transfers at once. A refused transfer refuses only itself; see its outcome."""
    wanted = cast(Any, [transfer.model_dump() for transfer in body.transfers])
    return {"outcomes": ledger.transfer_many(wanted, key=key)}


@router.get("/totals/{currency}", response_model=Total, responses=responses())
def read_total(ledger: Ledger, currency: str) -> Any:
    """Return the sum of all balances in a currency."""
    return {"currency": currency, "total": ledger.total(currency)}
