"""`squinney game`: load a world, play in a terminal, and check the stored data."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.table import Table

from squinney.cli.connecting import open_systems
from squinney.cli.parameters import Json
from squinney.cli.printing import console, print_json
from squinney.errors import SquinneyError
from squinney.game import World, find_problems
from squinney.game.documents import EVENTS
from squinney.game.surface import words
from squinney.game.surface.terminal import TerminalPlayer
from squinney.patterns.follow import Feed, Reader
from squinney.system import Assembled

app = typer.Typer(help="A world of rooms, things and characters.", no_args_is_help=True)

MAX_SHOWN = 20


def _world(systems: Assembled) -> World:
    return cast(World, systems.services["game"]["world"])


@app.command()
def load(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A YAML or JSON world, a CircleMUD file, or a folder of those.")],
    as_json: Json = False,
) -> None:
    """Load a world, and report what could not be read."""
    with open_systems(context) as systems:
        report = _world(systems).load_world(file)
    if as_json:
        print_json({**vars(report), "unread": [str(line) for line in report.unread]})
        return
    table = Table("rooms", "characters", "things", "already there", "problems")
    table.add_row(
        *(f"{count:,}" for count in (report.rooms, report.people, report.things, report.already_there)),
        f"{report.problems:,}",
    )
    console.print(table)
    for line in report.unread[:MAX_SHOWN]:
        console.print(str(line), highlight=False, markup=False, soft_wrap=True)
    if report.problems > MAX_SHOWN:
        console.print(f"and {report.problems - MAX_SHOWN:,} more; --json lists them", highlight=False)


@app.command()
def audit(context: typer.Context, as_json: Json = False) -> None:
    """Check that each thing is in one place, gold is conserved and lists are correct. Exits with 1 if not."""
    with open_systems(context) as systems:
        problems = list(find_problems(systems.db))
        gold = _world(systems).gold()
    if as_json:
        print_json(
            {"gold": gold, "problems": [{"code": problem.code, "message": problem.message} for problem in problems]}
        )
    else:
        for problem in problems:
            console.print(str(problem), highlight=False, markup=False, soft_wrap=True)
        console.print(f"{len(problems)} problems; {gold:,} gold in all", highlight=False)
    if problems:
        raise typer.Exit(1)


@app.command()
def play(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The character's name; a new name creates a character.")],
) -> None:
    """Play in the terminal: type `help` for the commands, and `quit` to leave."""
    with open_systems(context) as systems:
        world = _world(systems)
        player = TerminalPlayer(world, name)
        feed = Feed(systems.db, [EVENTS])
        ended = threading.Event()
        with feed.read(lambda change: change.kind == "insert") as reader:
            printer = threading.Thread(target=_print_events, args=(reader, player, ended), daemon=True)
            printer.start()
            try:
                _play(player)
            finally:
                ended.set()
                feed.close()


def _print_events(reader: Reader, player: TerminalPlayer, ended: threading.Event) -> None:
    """Print what other characters do in the player's room."""
    while not ended.is_set() and not reader.closed:
        change = reader.next(0.5)
        if change is not None and change.document and (line := player.text_of(change.document)):
            console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)


def _play(player: TerminalPlayer) -> None:
    _show(player.run("look"))
    while True:
        if sys.stdin.isatty():
            console.print("> ", end="")
        line = sys.stdin.readline()
        if not line or line.strip() in ("quit", "q", "exit"):
            return
        try:
            _show(player.run(line))
        except SquinneyError as error:
            _show(error.message[:1].upper() + error.message[1:])


def _show(text: str) -> None:
    text = "\n".join(words.printable(line) for line in text.split("\n"))
    console.print(text, markup=False, highlight=False, soft_wrap=True)
