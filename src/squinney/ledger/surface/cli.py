"""`squinney ledger`: accounts and transfers from the command line."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer
from rich.table import Column, Table

from squinney.http.commands import Cursor, Json, KeyOption, Limit, console, listed, print_json, ready
from squinney.ledger import Account, Accounts
from squinney.patterns.money import shown
from squinney.system import Assembled

app = typer.Typer(help="Accounts between which money moves.", no_args_is_help=True)


def _accounts(systems: Assembled) -> Accounts:
    return cast(Accounts, systems.services["ledger"]["accounts"])


def _show(value: Any, line: str, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _describe(account: Account) -> str:
    closed = " (closed)" if account.get("closed_at") else ""
    return f"{account['_id']}  {shown(account['balance'], account['currency'])}  {account['name']}{closed}"


@app.command("open")
def open_account(
    context: typer.Context,
    currency: Annotated[str, typer.Argument(help="Three letters, such as EUR.")],
    opening: Annotated[int, typer.Argument(help="Money put in, in minor units.")] = 0,
    name: Annotated[str, typer.Option(help="Whose it is, or what for.")] = "",
    owner: Annotated[str | None, typer.Option(help="The id of the person who sees and moves it on the site.")] = None,
    key: KeyOption = None,
    as_json: Json = False,
) -> None:
    """Open an account."""
    with ready(context) as systems:
        account = _accounts(systems).open(currency, opening, name=name, owner=owner, key=key)
    _show(account, _describe(account), as_json)


@app.command()
def transfer(
    context: typer.Context,
    src: str,
    dst: str,
    amount: Annotated[int, typer.Argument(help="In minor units.")],
    memo: Annotated[str, typer.Option(help="What it is for; both statements show it.")] = "",
    key: KeyOption = None,
    as_json: Json = False,
) -> None:
    """Move money from one account to another."""
    with ready(context) as systems:
        done = _accounts(systems).transfer(src, dst, amount, memo=memo, key=key)
    _show(done, f"moved {shown(done['amount'], done['currency'])} ({done['_id']})", as_json)


@app.command()
def show(context: typer.Context, account: str, as_json: Json = False) -> None:
    """Show an account."""
    with ready(context) as systems:
        found = _accounts(systems).get(account)
    _show(found, _describe(found), as_json)


@app.command()
def close(context: typer.Context, account: str, as_json: Json = False) -> None:
    """Close an empty account for good."""
    with ready(context) as systems:
        closed = _accounts(systems).close(account)
    _show(closed, _describe(closed), as_json)


@app.command("list")
def list_accounts(context: typer.Context, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List accounts, oldest first."""
    with ready(context) as systems:
        page = _accounts(systems).all(cursor=cursor, limit=limit)
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    table = Table(Column("id", no_wrap=True), "name", Column("balance", justify="right"), "closed")
    for account in page.items:
        balance = shown(account["balance"], account["currency"])
        closed = f"{account['closed_at']:%Y-%m-%d}" if account.get("closed_at") else ""
        table.add_row(account["_id"], account["name"], balance, closed)
    console.print(table)
    if page.next:
        console.print(f"more: --cursor {page.next}", highlight=False, soft_wrap=True)


@app.command()
def statement(
    context: typer.Context, account: str, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False
) -> None:
    """Show an account's entries, newest first."""
    with ready(context) as systems:
        page = _accounts(systems).statement(account, cursor=cursor, limit=limit)
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    table = Table("at", Column("amount", justify="right"), "memo", Column("other account", no_wrap=True))
    for entry in page.items:
        when = f"{entry['at']:%Y-%m-%d %H:%M:%S}"
        table.add_row(when, shown(entry["amount"], entry["currency"]), entry["memo"], entry.get("other_id", ""))
    console.print(table)
    if page.next:
        console.print(f"more: --cursor {page.next}", highlight=False, soft_wrap=True)


@app.command()
def total(context: typer.Context, currency: str, as_json: Json = False) -> None:
    """Sum all balances in a currency."""
    with ready(context) as systems:
        amount = _accounts(systems).total(currency)
    _show({"currency": currency, "total": amount}, shown(amount, currency), as_json)


@app.command()
def recover(context: typer.Context, as_json: Json = False) -> None:
    """Finish or undo what crashed processes left half done; the background job does this every few seconds."""
    with ready(context) as systems:
        counts = dict(systems.transactions.recover())
    _show(counts, listed(counts), as_json)
