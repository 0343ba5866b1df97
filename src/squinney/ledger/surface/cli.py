"""`squinney ledger`: accounts and transfers from the command line."""

from __future__ import annotations

from typing import Annotated, cast

import typer
from rich.table import Column

from squinney.http.commands import Cursor, Json, KeyOption, Limit, format_counts, open_systems, print_page, print_result
from squinney.ledger import Account, Accounts, Entry
from squinney.patterns.money import formatted
from squinney.system import Assembled

app = typer.Typer(help="Accounts between which money moves.", no_args_is_help=True)


def _accounts(systems: Assembled) -> Accounts:
    return cast(Accounts, systems.services["ledger"]["accounts"])


def _describe(account: Account) -> str:
    closed = " (closed)" if account.get("closed_at") else ""
    return f"{account['_id']}  {formatted(account['balance'], account['currency'])}  {account['name']}{closed}"


@app.command("open")
def open_account(
    context: typer.Context,
    currency: Annotated[str, typer.Argument(help="Three letters, such as EUR.")],
    opening: Annotated[int, typer.Argument(help="The opening balance, in minor units.")] = 0,
    name: Annotated[str, typer.Option(help="The name of the account.")] = "",
    owner: Annotated[str | None, typer.Option(help="The id of the person who can see and use it on the site.")] = None,
    key: KeyOption = None,
    as_json: Json = False,
) -> None:
    """Open an account."""
    with open_systems(context) as systems:
        account = _accounts(systems).open(currency, opening, name=name, owner=owner, key=key)
    print_result(account, _describe(account), as_json)


@app.command()
def transfer(
    context: typer.Context,
    src: str,
    dst: str,
    amount: Annotated[int, typer.Argument(help="In minor units.")],
    memo: Annotated[str, typer.Option(help="A memo for both statements.")] = "",
    key: KeyOption = None,
    as_json: Json = False,
) -> None:
    """Move money from one account to another."""
    with open_systems(context) as systems:
        done = _accounts(systems).transfer(src, dst, amount, memo=memo, key=key)
    print_result(done, f"moved {formatted(done['amount'], done['currency'])} ({done['_id']})", as_json)


@app.command("show")
def show_account(context: typer.Context, account: str, as_json: Json = False) -> None:
    """Show an account."""
    with open_systems(context) as systems:
        found = _accounts(systems).get(account)
    print_result(found, _describe(found), as_json)


@app.command()
def close(context: typer.Context, account: str, as_json: Json = False) -> None:
    """Close an empty account permanently."""
    with open_systems(context) as systems:
        closed = _accounts(systems).close(account)
    print_result(closed, _describe(closed), as_json)


@app.command("list")
def list_accounts(context: typer.Context, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List accounts, oldest first."""
    with open_systems(context) as systems:
        page = _accounts(systems).all(cursor=cursor, limit=limit)
    columns = Column("id", no_wrap=True), "name", Column("balance", justify="right"), "closed"
    print_page(page, as_json, columns, _account_row)


def _account_row(account: Account) -> list[str]:
    closed = f"{account['closed_at']:%Y-%m-%d}" if account.get("closed_at") else ""
    return [account["_id"], account["name"], formatted(account["balance"], account["currency"]), closed]


@app.command()
def statement(
    context: typer.Context, account: str, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False
) -> None:
    """Show an account's entries, newest first."""
    with open_systems(context) as systems:
        page = _accounts(systems).statement(account, cursor=cursor, limit=limit)
    columns = "at", Column("amount", justify="right"), "memo", Column("other account", no_wrap=True)
    print_page(page, as_json, columns, _entry_row)


def _entry_row(entry: Entry) -> list[str]:
    amount = formatted(entry["amount"], entry["currency"])
    return [f"{entry['at']:%Y-%m-%d %H:%M:%S}", amount, entry["memo"], entry.get("other_id", "")]


@app.command()
def total(context: typer.Context, currency: str, as_json: Json = False) -> None:
    """Sum all balances in a currency."""
    with open_systems(context) as systems:
        amount = _accounts(systems).total(currency)
    print_result({"currency": currency, "total": amount}, formatted(amount, currency), as_json)


@app.command()
def recover(context: typer.Context, as_json: Json = False) -> None:
    """Finish or undo the transactions of crashed processes; the background job does this every few seconds."""
    with open_systems(context) as systems:
        counts = dict(systems.transactions.recover())
    print_result(counts, format_counts(counts), as_json)
