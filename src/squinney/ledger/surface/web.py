"""The ledger's pages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.errors import Invalid, SquinneyError
from squinney.http.dependencies import noun
from squinney.http.pages import render
from squinney.http.statuses import status_of
from squinney.http.visitor import visitor_of
from squinney.ledger import Accounts
from squinney.patterns import money
from squinney.patterns.ids import new_id
from squinney.transactions import KeyReused

router = APIRouter(prefix="/ledger")
WRITES_NEED = "member"

Ledger = Annotated[Accounts, Depends(noun("ledger", "accounts", Accounts))]
Text = Annotated[str, Form()]


@router.get("", response_class=HTMLResponse)
def show_accounts(request: Request, ledger: Ledger, cursor: str | None = None) -> Response:
    """All accounts, and forms to open one and to move money."""
    return _index(request, ledger, cursor=cursor)


def _index(request: Request, ledger: Accounts, *, error: SquinneyError | None = None, **values: Any) -> Response:
    page = ledger.all(cursor=values.get("cursor"), limit=50)
    currencies = sorted({account["currency"] for account in page.items})
    totals = [(currency, ledger.total(currency)) for currency in currencies]
    return render(
        request,
        "ledger/index.html",
        status=status_of(error) if error else 200,
        page=page,
        totals=totals,
        error=error,
        shows_all=page.next is None and values.get("cursor") is None,
        typed=values.get("typed", {}),
        key=_key_after(error, values.get("key", "")),
    )


def _key_after(error: SquinneyError | None, sent: str) -> str:
    """The forms' key: the one that was sent, where it came to nothing we know of, so that sending it again is safe."""
    return sent if error and sent and not isinstance(error, KeyReused) else new_id()


@router.post("/accounts", response_class=HTMLResponse)
def open_account(
    request: Request, ledger: Ledger, name: Text, currency: Text, key: Text, opening: Text = "0"
) -> Response:
    """Open an account and show it; a form sent twice opens one."""
    try:
        amount = _amount(opening, currency, "opening")
        account = ledger.open(currency, amount, name=name, key=key, scope="web")
    except SquinneyError as error:
        typed = {"name": name, "currency": currency, "opening": opening}
        return _index(request, ledger, error=error, typed=typed, key=key)
    visitor_of(request).flash("The account is open.")
    return RedirectResponse(f"/ledger/{account['_id']}", status_code=303)


@router.post("/transfers", response_class=HTMLResponse)
def transfer(
    request: Request, ledger: Ledger, src: Text, dst: Text, amount: Text, key: Text, memo: Text = ""
) -> Response:
    """Move money and show where it came from; a form sent twice moves it once."""
    try:
        minor = _amount(amount, ledger.get(src)["currency"], "amount")
        done = ledger.transfer(src, dst, minor, memo=memo, key=key, scope="web")
    except SquinneyError as error:
        typed = {"src": src, "dst": dst, "amount": amount, "memo": memo}
        return _index(request, ledger, error=error, typed=typed, key=key)
    visitor_of(request).flash(f"{money.shown(done['amount'], done['currency'])} has been moved.")
    return RedirectResponse(f"/ledger/{src}", status_code=303)


def _amount(text: str, currency: str, field: str) -> int:
    amount = money.parsed(text, currency)
    if amount is None:
        raise Invalid(f"{field} must be a number like 12.50", field=field)
    return amount


@router.get("/{account_id}", response_class=HTMLResponse)
def show_account(request: Request, ledger: Ledger, account_id: str, cursor: str | None = None) -> Response:
    """One account with its statement."""
    return _account(request, ledger, account_id, cursor=cursor)


def _account(
    request: Request,
    ledger: Accounts,
    account_id: str,
    *,
    cursor: str | None = None,
    error: SquinneyError | None = None,
) -> Response:
    page = ledger.statement(account_id, cursor=cursor, limit=25)
    account = ledger.get(account_id)
    return render(
        request,
        "ledger/account.html",
        status=status_of(error) if error else 200,
        account=account,
        page=page,
        names=ledger.names(entry["other_id"] for entry in page.items if "other_id" in entry),
        cursor=cursor,
        error=error,
    )


@router.post("/{account_id}/close", response_class=HTMLResponse)
def close(request: Request, ledger: Ledger, account_id: str) -> Response:
    """Close an empty account."""
    try:
        ledger.close(account_id)
    except SquinneyError as error:
        return _account(request, ledger, account_id, error=error)
    visitor_of(request).flash("The account is closed.")
    return RedirectResponse(f"/ledger/{account_id}", status_code=303)
