"""`squinney polls`: polls from the command line."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from polls.polls import Polls
from squinney.http.commands import Json, console, print_json, ready
from squinney.system import Assembled

app = typer.Typer(help="Questions with a few options.", no_args_is_help=True)


def _polls(systems: Assembled) -> Polls:
    return cast(Polls, systems.services["polls"]["polls"])


@app.command("open")
def open_poll(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="What to ask.")],
    options: Annotated[list[str], typer.Argument(help="What may be answered.")],
    as_json: Json = False,
) -> None:
    """Ask a question."""
    with ready(context) as systems:
        poll = _polls(systems).open(question, options)
    if as_json:
        print_json(poll)
    else:
        console.print(poll["_id"], highlight=False)


@app.command("show")
def show(context: typer.Context, poll_id: Annotated[str, typer.Argument(help="Which poll.")]) -> None:
    """The votes of each option."""
    with ready(context) as systems:
        for option in _polls(systems).get(poll_id)["options"]:
            console.print(f"{option['votes']:>6}  {option['name']}", highlight=False)
