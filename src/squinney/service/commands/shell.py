"""`squinney shell`: a Python shell with all services."""

from __future__ import annotations

import code

import typer

from squinney.cli.connecting import open_systems


def shell(context: typer.Context) -> None:
    """Open a Python shell with `db`, `transactions` and every system's services."""
    with open_systems(context) as systems:
        names = {"db": systems.db, "transactions": systems.transactions}
        for services in systems.services.values():
            names.update(services)
        code.interact(banner=f"Available names: {', '.join(names)}.", local=names, exitmsg="")
