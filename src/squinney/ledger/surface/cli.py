"""`squinney ledger`: accounts and transfers from the command line."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Column

from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Cursor, Json, KeyOption, Limit
from squinney.cli.printing import errors, format_counts, print_page, print_result
from squinney.errors import Invalid
from squinney.ledger import Account, Accounts, Entry, NewTransfer
from squinney.mongo.schema import Document
from squinney.patterns.money import formatted
from squinney.system import Assembled
from squinney.transactions import two_phase

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


@app.command("transfer-many")
def transfer_many(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A CSV file with the columns src, dst, amount (minor units) and memo.")],
    key: KeyOption = None,
    as_json: Json = False,
) -> None:
    """Make up to 1,000 transfers at once. Refused ones are reported by line, and the others are made."""
    wanted, lines = _read_transfers(file)
    with open_systems(context) as systems:
        try:
            outcomes = _accounts(systems).transfer_many(wanted, key=key)
        except Invalid as error:
            raise _with_line(error, file, lines) from error
    refused = [
        (line, outcome["refused"]) for line, outcome in zip(lines, outcomes, strict=True) if "refused" in outcome
    ]
    for line, why in refused:
        errors.print(f"line {line}: {why['message']} ({why['code']})", highlight=False, soft_wrap=True)
    print_result(outcomes, f"{len(outcomes) - len(refused)} made, {len(refused)} refused", as_json)
    if refused:
        raise typer.Exit(1)


def _read_transfers(file: Path) -> tuple[list[NewTransfer], list[int]]:
    """Return the transfers of a CSV file, and the line of each."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            rows = csv.DictReader(text, strict=True)
            if not {"src", "dst", "amount"} <= set(rows.fieldnames or ()):
                raise Invalid(f"{file} must begin with the line src,dst,amount or src,dst,amount,memo", field="file")
            read = [(_transfer_of(row), rows.line_num) for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Invalid(f"{file} cannot be read: {error}", field="file") from error
    return [wanted for wanted, _ in read], [line for _, line in read]


def _transfer_of(row: dict[Any, Any]) -> NewTransfer:
    """Return the row with its amount as a number; `transfer_many` refuses what else is wrong, and names the field."""
    amount = row["amount"]
    whole = isinstance(amount, str) and re.fullmatch(r"-?[0-9]{1,20}", amount.strip())
    return cast(NewTransfer, {**row, "amount": int(amount) if whole else amount, "memo": row.get("memo") or ""})


def _with_line(error: Invalid, file: Path, lines: list[int]) -> Invalid:
    """Return an error about the transfer of a number as one about its line."""
    if not (prefix := re.match(r"transfers\[([0-9]+)\]\.?", error.message)):
        return error
    where = f"{file}, line {lines[int(prefix[1])]}"
    return Invalid(f"{where}: {error.message[prefix.end() :].strip()}", **error.details)


@app.command("show")
def show_account(context: typer.Context, account: str, as_json: Json = False) -> None:
    """Show an account."""
    with open_systems(context) as systems:
        shown = _accounts(systems).get(account)
    print_result(shown, _describe(shown), as_json)


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
    """Show an account's entries, newest first, with the balance after each."""
    with open_systems(context) as systems:
        page = _accounts(systems).statement(account, cursor=cursor, limit=limit)
    amounts = Column("amount", justify="right"), Column("balance", justify="right")
    columns: list[str | Column] = ["at", *amounts, "memo", Column("other account", no_wrap=True)]
    print_page(page, as_json, columns, _entry_row)


def _entry_row(entry: Entry) -> list[str]:
    amount = formatted(entry["amount"], entry["currency"])
    balance = formatted(entry["balance"], entry["currency"]) if "balance" in entry else ""
    return [f"{entry['at']:%Y-%m-%d %H:%M:%S}", amount, balance, entry["memo"], entry.get("other_id", "")]


@app.command()
def total(context: typer.Context, currency: str, as_json: Json = False) -> None:
    """Sum all balances in a currency."""
    with open_systems(context) as systems:
        amount = _accounts(systems).total(currency)
    print_result({"currency": currency, "total": amount}, formatted(amount, currency), as_json)


@app.command()
def recover(context: typer.Context, as_json: Json = False) -> None:
    """Finish or undo the two-phase transfers of crashed processes; the background job does this every few seconds."""
    with open_systems(context) as systems:
        counts = dict(two_phase.recover(systems.db))
    print_result(counts, format_counts(counts), as_json)


@app.command()
def stuck(
    context: typer.Context,
    finish: Annotated[str | None, typer.Option(metavar="RUN", help="Apply this run, whatever validators say.")] = None,
    undo: Annotated[str | None, typer.Option(metavar="RUN", help="Take this run back, although it is decided.")] = None,
    as_json: Json = False,
) -> None:
    """Show the two-phase runs that cannot be settled, with their documents; finish or undo one of them."""
    if finish and undo:
        raise Invalid("use either --finish or --undo", field="undo")
    with open_systems(context) as systems:
        if finish:
            two_phase.finish_stuck(systems.db, finish)
        if undo:
            two_phase.undo_stuck(systems.db, undo)
        runs = two_phase.stuck_runs(systems.db)
    print_result(runs, "\n".join(map(_describe_run, runs)) or "no run is stuck", as_json)


def _describe_run(run: Document) -> str:
    heading = f"{run['_id']}  {run['kind']}  {run['state']}  {run['at']:%Y-%m-%d %H:%M:%S}"
    return "\n".join([heading, *map(_describe_document, run["documents"])])


def _describe_document(document: Document) -> str:
    change = f"{document['verb']} {document['collection']} {document['id']} {document['update'] or ''}"
    return f"  {change} {'waiting' if document['held'] else 'done'}"
