"""`squinney shell`: Python with everything at hand."""

from __future__ import annotations

import code

import typer

from squinney.http.commands import ready


def shell(context: typer.Context) -> None:
    """Open Python with `db`, `transactions` and every system's nouns."""
    with ready(context) as systems:
        names = {"db": systems.db, "transactions": systems.transactions}
        for nouns in systems.nouns.values():
            names.update(nouns)
        code.interact(banner=f"Here are: {', '.join(names)}.", local=names, exitmsg="")
