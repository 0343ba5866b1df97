"""`squinney remove`: drops what Squinney made for a system."""

from __future__ import annotations

from typing import Annotated

import typer

from squinney import assembly
from squinney.cli.connecting import connected
from squinney.cli.printing import print_line
from squinney.errors import Invalid
from squinney.service.removal import plan_removal
from squinney.service.removal import remove as remove_planned


def remove(
    context: typer.Context,
    system: Annotated[str, typer.Argument(help="A system, such as ledger; `all` also drops what all systems share.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show what Squinney made for a system in this database, and drop it after a confirmation.

    End the processes that use the system first. Collections that Squinney did not make, or took over, stay.
    """
    with connected(context) as connection:
        db = connection.db
        removal = plan_removal(db, assembly.chosen_systems([system]), everything=system == assembly.ALL)
        for name, reason in removal.stays.items():
            print_line(f"stays: {name}: {reason}")
        if not removal.drops:
            print_line(f"The database {db.name} has nothing of {system} that could be dropped.")
            return
        for (of, name), documents in removal.drops.items():
            shown = name if of.name == db.name else f"{name} in the database {of.name}"
            print_line(f"drops: {shown}, {documents} document{'' if documents == 1 else 's'}")
        # guard: nothing is dropped without a confirmation
        if not (yes or _confirmed(f"Drop {len(removal.drops)} collections of the database {db.name}?")):
            raise Invalid("nothing was dropped: confirm it, or give --yes", field="yes")
        remove_planned(removal)
        print_line(f"Dropped {len(removal.drops)} collections.")


def _confirmed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # nobody is there to answer
        typer.echo(err=True)
        return False
