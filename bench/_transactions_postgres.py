"""The same transfers on PostgreSQL: one PL/pgSQL function, and DBOS Transact; each commit is synchronous."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.postgres import private_postgres
from squinney.patterns.ids import new_id

Transfer = Callable[[str, str, int], object]

SCHEMA = """
CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL, currency text NOT NULL, closed_at timestamptz);
CREATE TABLE entries (id text PRIMARY KEY, account_id text NOT NULL, transfer_id text NOT NULL, other_id text NOT NULL,
    amount bigint NOT NULL, currency text NOT NULL, at timestamptz NOT NULL, memo text NOT NULL);
CREATE INDEX ON entries (account_id, at);

CREATE FUNCTION transfer(transfer_id text, src text, dst text, sum bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM accounts WHERE id IN (src, dst) ORDER BY id FOR UPDATE;
    UPDATE accounts SET balance = balance - sum WHERE id = src AND balance >= sum AND closed_at IS NULL;
    IF NOT FOUND THEN RAISE EXCEPTION 'insufficient funds'; END IF;
    UPDATE accounts SET balance = balance + sum WHERE id = dst AND closed_at IS NULL;
    IF NOT FOUND THEN RAISE EXCEPTION 'unknown account'; END IF;
    INSERT INTO entries VALUES (transfer_id || '-out', src, transfer_id, dst, -sum, 'EUR', now(), ''),
        (transfer_id || '-in', dst, transfer_id, src, sum, 'EUR', now(), '');
END $$;

CREATE FUNCTION transfer_many(ids text[], sources text[], targets text[], sums bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM accounts WHERE id = ANY(sources || targets) ORDER BY id FOR UPDATE;
    FOR i IN 1 .. array_length(ids, 1) LOOP
        PERFORM transfer(ids[i], sources[i], targets[i], sums[i]);
    END LOOP;
END $$;
"""


@dataclass(frozen=True)
class Bank:
    """Transfers on PostgreSQL; what is None cannot run here, for the reason in `missing`. `socket` is its folder."""

    socket: Path | None = None
    transfer: Transfer | None = None
    transfer_many: Callable[[Sequence[tuple[str, str, int]]], object] | None = None
    dbos: Transfer | None = None
    missing: str = ""
    missing_dbos: str = ""
    version: str = ""


@contextmanager
def bank(ids: Sequence[str], opening: int) -> Iterator[Bank]:
    """Start a private PostgreSQL with these accounts."""
    with ExitStack() as stack:
        socket = stack.enter_context(private_postgres())
        if socket is None:
            yield Bank(missing="no PostgreSQL", missing_dbos="no PostgreSQL")
            return
        try:
            import psycopg
        except ImportError:
            missing = "the package psycopg is missing: pip install 'psycopg[binary]'"
            yield Bank(missing=missing, missing_dbos=missing)
            return
        with psycopg.connect(_where(socket), autocommit=True) as first:
            first.execute(SCHEMA)
            with first.cursor() as cursor, cursor.copy("COPY accounts (id, balance, currency) FROM STDIN") as copy:
                for account_id in ids:
                    copy.write_row((account_id, opening, "EUR"))
            version = str(first.info.server_version // 10_000)
        transfer, transfer_many = functions(socket)
        transfer_with_dbos, missing = stack.enter_context(dbos(socket))
        yield Bank(socket, transfer, transfer_many, transfer_with_dbos, missing_dbos=missing, version=version)


def _where(socket: Path) -> str:
    return f"host={socket} user=postgres dbname=postgres"


def functions(socket: Path) -> tuple[Transfer, Callable[[Sequence[tuple[str, str, int]]], object]]:
    """Return `transfer` and `transfer_many`, with a connection for each thread."""
    import psycopg

    own = threading.local()

    def execute(statement: str, parameters: Sequence[Any]) -> None:
        if not hasattr(own, "connection"):
            own.connection = psycopg.connect(_where(socket), autocommit=True)
        own.connection.execute(statement, parameters)

    def transfer(src: str, dst: str, amount: int) -> None:
        execute("SELECT transfer(%s, %s, %s, %s)", (new_id(), src, dst, amount))

    def transfer_many(transfers: Sequence[tuple[str, str, int]]) -> None:
        sources, targets, sums = (list(part) for part in zip(*transfers, strict=True))
        execute("SELECT transfer_many(%s, %s, %s, %s)", ([new_id() for _ in transfers], sources, targets, sums))

    return transfer, transfer_many


@contextmanager
def dbos(socket: Path) -> Iterator[tuple[Transfer | None, str]]:
    """Run a workflow of one transaction, as its tutorial does: the function of the database is called in it."""
    try:
        import sqlalchemy
        from dbos import DBOS, SQLAlchemyDatasource
    except ImportError:
        yield None, "the package dbos is missing: pip install dbos"
        return
    url = f"postgresql+psycopg://postgres@/postgres?host={socket}"
    # Each process is an executor of its own: at its start it would run the unfinished workflows of others of its name.
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "executor_id": str(os.getpid())})
    source = SQLAlchemyDatasource.create(url)
    statement = sqlalchemy.text("SELECT transfer(:id, :src, :dst, :sum)")

    @source.transaction(isolation_level="READ COMMITTED")
    def move(transfer_id: str, src: str, dst: str, amount: int) -> None:
        source.sql_session().execute(statement, {"id": transfer_id, "src": src, "dst": dst, "sum": amount})

    @DBOS.workflow()
    def pay(src: str, dst: str, amount: int) -> None:
        move(new_id(), src, dst, amount)

    DBOS.launch()
    try:
        yield pay, ""
    finally:
        DBOS.destroy()
