"""The options that many commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from squinney.transactions import Key

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Cursor = Annotated[str | None, typer.Option(help="The cursor that the previous page printed.")]
Limit = Annotated[int, typer.Option(help="How many to show.")]
Adopt = Annotated[
    list[str] | None,
    typer.Option("--adopt", metavar="NAME", help="Take over a collection that Squinney did not make; may be repeated."),
]


def _choose(context: typer.Context, names: str | None) -> str | None:
    if names is not None:
        context.obj.given["systems"] = names
    return names


SYSTEMS_HELP = "The systems to use, separated by commas; by default all [SQUINNEY_SYSTEMS]."
Systems = Annotated[
    str | None, typer.Option("--systems", metavar="NAMES", callback=_choose, expose_value=True, help=SYSTEMS_HELP)
]
KeyOption = Annotated[
    Key | None,
    typer.Option(
        parser=lambda given: Key(given, "cli"),
        metavar="TEXT",
        help="An idempotency key: repeating the command with the same key has no further effect.",
    ),
]
