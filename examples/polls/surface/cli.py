"""`squinney polls`: polls from the command line."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from polls.polls import Polls
from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Json
from squinney.cli.printing import console, print_json
from squinney.system import Assembled

app = typer.Typer(help="Questions with a few options.", no_args_is_help=True)


def _polls(systems: Assembled) -> Polls:
    return cast(Polls, systems.services["polls"]["polls"])


@app.command("open")
def open_poll(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="The question.")],
    options: Annotated[list[str], typer.Argument(help="The options to vote for, 2 to 20.")],
    as_json: Json = False,
) -> None:
    """Create a poll and print its id."""
    with open_systems(context) as systems:
        poll = _polls(systems).open(question, options)
    if as_json:
        print_json(poll)
    else:
        console.print(poll["_id"], highlight=False)


@app.command("show")
def show(context: typer.Context, poll_id: Annotated[str, typer.Argument(help="The id of the poll.")]) -> None:
    """Show the votes of each option."""
    with open_systems(context) as systems:
        for option in _polls(systems).get(poll_id)["options"]:
            console.print(f"{option['votes']:>6}  {option['name']}", highlight=False)
