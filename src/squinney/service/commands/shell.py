"""`squinney shell`: Python with everything at hand."""

from __future__ import annotations

import code

import typer

from squinney.http.commands import ready


def shell(context: typer.Context) -> None:
    """Open Python with `db`, `transactions` and every system's services."""
    with ready(context) as systems:
        names = {"db": systems.db, "transactions": systems.transactions}
        for services in systems.services.values():
            names.update(services)
        code.interact(banner=f"Here are: {', '.join(names)}.", local=names, exitmsg="")
