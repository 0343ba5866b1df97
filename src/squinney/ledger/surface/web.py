"""The ledger's pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from squinney.errors import Conflict, Forbidden, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import is_admin, needs, signed_in
from squinney.http.access.visitor import visitor_of
from squinney.http.cursors import sign, unsigned
from squinney.http.dependencies import service
from squinney.http.pages import redirect, render
from squinney.ledger import Account, Accounts, Entry, UnknownAccount
from squinney.ledger.documents import ACCOUNT, ENTRY
from squinney.mongo.shapes import fits
from squinney.patterns import money
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, without_damaged
from squinney.transactions import Key, KeyReused

router = APIRouter(prefix="/ledger", route_class=PageRoute)

Ledger = Annotated[Accounts, Depends(service("ledger", "accounts", Accounts))]
Text = Annotated[str, Form()]
Cursor = Annotated[str | None, Query(max_length=20_000)]


@router.get("", response_class=HTMLResponse)
def show_accounts(request: Request, ledger: Ledger, cursor: Cursor = None) -> Response:
    """List the visitor's accounts, or all for an admin, with forms to open one and to transfer money.

    Visitors who have not signed in see what the ledger is, and the statement of the site's public account, if any.
    """
    if visitor_of(request).person is None:
        return _public_page(request, ledger, cursor)
    return _accounts_page(request, ledger, cursor=cursor)


def _accounts_page(
    request: Request,
    ledger: Accounts,
    *,
    cursor: str | None = None,
    error: SquinneyError | None = None,
    typed: dict[str, str] | None = None,
    key: str = "",
) -> Response:
    if is_admin(request):
        page = ledger.all(cursor=cursor, limit=50)
    else:
        page = ledger.owned_by(signed_in(request)["_id"], cursor=cursor, limit=50)
    page, damaged = without_damaged(page, lambda account: fits(account, ACCOUNT))
    shows_latest = page.items and not is_admin(request)
    latest = _statement(request, ledger, page.items[0]["_id"], None, 8)[0].items if shows_latest else []
    return render(
        request,
        "ledger/index.html",
        page=page,
        latest=latest,
        names=_other_names(ledger, latest),
        damaged=damaged,
        totals=_totals(request, ledger, page.items),
        error=error,
        is_admin=is_admin(request),
        shows_all=page.next is None and cursor is None,
        typed=typed or {},
        key=_form_key(error, key),
    )


def _public_account(request: Request) -> str | None:
    """Return the id of the account whose statement everybody may read. The service provides it."""
    find: Callable[[], str | None] | None = getattr(request.app.state, "public_account", None)
    return find() if find else None


def _public_page(request: Request, ledger: Accounts, cursor: str | None) -> Response:
    account_id = _public_account(request)
    if account_id is None:
        return render(request, "ledger/public.html", account=None, error=None)
    account = ledger.get(account_id)
    page, _ = _statement(request, ledger, account_id, cursor, 15)
    return render(request, "ledger/public.html", account=account, page=page, error=None)


def _statement(
    request: Request, ledger: Accounts, account_id: str, cursor: str | None, limit: int
) -> tuple[Page[Entry], int]:
    """Return a page of a statement without its damaged entries, and their number.

    The cursor is signed: it contains a balance, and a link must not make one up.
    """
    name = f"/ledger/{account_id}"
    # guard: a link cannot make up the balances of a statement
    page = ledger.statement(account_id, cursor=unsigned(request, cursor, name), limit=limit)
    return without_damaged(Page(page.items, sign(request, page.next, name)), lambda entry: fits(entry, ENTRY))


def _other_names(ledger: Accounts, entries: Sequence[Entry]) -> Mapping[str, str]:
    return ledger.names(entry["other_id"] for entry in entries if isinstance(entry.get("other_id"), str))


def _totals(request: Request, ledger: Accounts, shown: list[Account]) -> list[tuple[str, int]]:
    """Return the totals by currency: of all accounts for an admin, else of the accounts shown."""
    currencies = sorted({account["currency"] for account in shown})
    if is_admin(request):
        return [(currency, ledger.total(currency)) for currency in currencies]
    return [
        (currency, sum(account["balance"] for account in shown if account["currency"] == currency))
        for currency in currencies
    ]


def _visible_account(request: Request, ledger: Accounts, account_id: str) -> Account:
    """Return the account; raise `UnknownAccount` if the visitor may not see it, as if it did not exist."""
    account = ledger.get(account_id)
    if account.get("owner") != signed_in(request)["_id"] and not is_admin(request):
        raise UnknownAccount(f"there is no account {account_id}", account_id=account_id)
    return account


def _form_key(error: SquinneyError | None, sent: str) -> str:
    """Return the forms' idempotency key. An error keeps the sent one, so that sending the form again is safe."""
    return sent if error and sent and not isinstance(error, KeyReused) else new_id()


@router.post("/accounts", response_class=HTMLResponse)
def open_account(
    request: Request, ledger: Ledger, name: Text, currency: Text, key: Text, opening: Text = "0"
) -> Response:
    """Open an account and show it; a form sent twice opens one account."""
    try:
        amount = money.parsed(opening, currency, "opening")
        if amount and not is_admin(request):
            raise Forbidden("only an admin may set an opening balance", field="opening")
        owner = signed_in(request)["_id"]
        account = ledger.open(currency, amount, name=name, owner=owner, key=Key(key, f"web:{owner}"))
    except SquinneyError as error:
        typed = {"name": name, "currency": currency, "opening": opening}
        return _accounts_page(request, ledger, error=error, typed=typed, key=key)
    return redirect(request, f"/ledger/{account['_id']}", "The account is open.")


@router.post("/transfers", response_class=HTMLResponse)
def transfer(
    request: Request, ledger: Ledger, src: Text, dst: Text, amount: Text, key: Text, memo: Text = ""
) -> Response:
    """Transfer money and show the source account; a form sent twice transfers once."""
    try:
        minor = money.parsed(amount, _visible_account(request, ledger, src)["currency"])
        done = ledger.transfer(src, dst, minor, memo=memo, key=Key(key, f"web:{signed_in(request)['_id']}"))
    except SquinneyError as error:
        typed = {"src": src, "dst": dst, "amount": amount, "memo": memo}
        return _accounts_page(request, ledger, error=error, typed=typed, key=key)
    moved = money.formatted(done["amount"], done["currency"])
    return redirect(request, f"/ledger/{src}", f"{moved} has been transferred.")


@router.get("/{account_id}", response_class=HTMLResponse, dependencies=[needs("member")])
def show_account(request: Request, ledger: Ledger, account_id: str, cursor: Cursor = None) -> Response:
    """Show an account with its statement."""
    return _account_page(request, ledger, account_id, cursor=cursor)


def _account_page(
    request: Request,
    ledger: Accounts,
    account_id: str,
    *,
    cursor: str | None = None,
    error: SquinneyError | None = None,
) -> Response:
    account = _visible_account(request, ledger, account_id)
    if not fits(account, ACCOUNT):
        raise Conflict(f"account {account_id} is damaged: see `squinney doctor`", account_id=account_id)
    page, damaged = _statement(request, ledger, account_id, cursor, 25)
    return render(
        request,
        "ledger/account.html",
        account=account,
        page=page,
        damaged=damaged,
        names=_other_names(ledger, page.items),
        is_admin=is_admin(request),
        error=error,
    )


@router.post("/{account_id}/close", response_class=HTMLResponse)
def close(request: Request, ledger: Ledger, account_id: str) -> Response:
    """Close an empty account."""
    _visible_account(request, ledger, account_id)
    try:
        ledger.close(account_id)
    except SquinneyError as error:
        return _account_page(request, ledger, account_id, error=error)
    return redirect(request, f"/ledger/{account_id}", "The account is closed.")
