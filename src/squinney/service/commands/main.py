"""`squinney`: the command with all its subcommands. Where the first word names one, only that one is loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from pymongo.errors import OperationFailure, PyMongoError

from squinney import __version__
from squinney.errors import SquinneyError, Unavailable
from squinney.http.commands import Call, errors
from squinney.mongo.connect import is_away
from squinney.mongo.schema import Db
from squinney.service.commands.exit_codes import INTERRUPTED, exit_code_of
from squinney.settings import Settings
from squinney.system import Assembled, System, module_at

# By way of its child: typer raises click's, or since some version those of a copy that it keeps for itself.
UsageError: Any = typer.BadParameter.__base__

# In which module each is, as a function of the same name.
COMMANDS = {
    "serve": "serve",
    "demo": "serve",
    "doctor": "doctor",
    "indexes": "indexes",
    "migrate": "migrate",
    "prove": "prove",
    "shell": "shell",
    "worker": "worker",
}
WITH_VALUE = ("--uri", "--database", "--data")


def command_for(systems: Sequence[System]) -> typer.Typer:
    """The command with all its subcommands: its own, and those that the systems have in `surface/cli.py`.

    There `app` is the group of commands named after the system; a system that wants other groups has them in `APPS`.
    """
    app = _empty()
    for name in COMMANDS:
        _add_own(app, name)
    app.add_typer(_own("worker").jobs_app, name="jobs")
    for system in systems:
        if module := system.surface("cli"):
            groups = module.APPS if hasattr(module, "APPS") else {system.name: module.app}
            for name, group in groups.items():
                app.add_typer(group, name=name)
    return app


def _command_asked_for(arguments: Sequence[str]) -> typer.Typer:
    """The command with the one subcommand or group that the arguments begin with, or with all."""
    word = _first_word(arguments)
    app = _empty()
    if word in COMMANDS:
        _add_own(app, word)
        return app
    module = module_at(f"squinney.{word}.surface.cli") if word.isidentifier() else None
    if module and hasattr(module, "app"):
        app.add_typer(module.app, name=word)
        return app
    from squinney.assembly import with_systems

    return command_for(with_systems(Settings.from_environment().system_packages))


def _first_word(arguments: Sequence[str]) -> str:
    rest = iter(arguments)
    for argument in rest:
        if argument in WITH_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return ""


def _empty() -> typer.Typer:
    app = typer.Typer(
        name="squinney",
        help="Crash-safe application back ends on MongoDB.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    return app


def _own(module: str) -> Any:
    return import_module(f"squinney.service.commands.{module}")


def _add_own(app: typer.Typer, name: str) -> None:
    app.command(name)(getattr(_own(COMMANDS[name]), name))


def _assemble(db: Db, settings: Settings) -> Assembled:
    from squinney.service.commands.systems import assemble

    return assemble(db, settings)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"squinney {__version__}")
        raise typer.Exit


def options(
    context: typer.Context,
    uri: Annotated[str | None, typer.Option(help="A replica set or sharded cluster [MONGODB_URI].")] = None,
    database: Annotated[str | None, typer.Option(help="The database's name [SQUINNEY_DATABASE].")] = None,
    data: Annotated[Path | None, typer.Option(help="The embedded MongoDB's folder [SQUINNEY_DATA].")] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options for all commands; they win over the environment."""
    context.obj = Call({"uri": uri, "database": database, "data_folder": data}, _assemble)


def main() -> None:
    """Run the command; an error is one sentence and an exit code, a traceback only with --debug."""
    try:
        # The shell asks for completions with the words so far in the environment.
        words = os.environ.get("COMP_WORDS", "").split()[1:] if "_SQUINNEY_COMPLETE" in os.environ else sys.argv[1:]
        code = _command_asked_for(words)(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (SquinneyError, PyMongoError, OSError) as error:
        if "--debug" in sys.argv:
            raise
        message, exit_code = _message(error)
        errors.print(f"squinney: {message}", highlight=False, markup=False, soft_wrap=True)
        sys.exit(exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)
    except UsageError as error:
        error.show()
        sys.exit(error.exit_code)


def _message(error: SquinneyError | PyMongoError | OSError) -> tuple[str, int]:
    """The sentence and the exit code: for our errors, what MongoDB refuses, and a file or disk that will not do."""
    if isinstance(error, PyMongoError) and is_away(error):
        error = Unavailable("MongoDB cannot be reached, or is too slow")
    if isinstance(error, SquinneyError):
        return error.message, exit_code_of(error)
    if isinstance(error, OperationFailure):
        return f"MongoDB refused: {(error.details or {}).get('errmsg', error)}", 1
    return str(error), 1


if __name__ == "__main__":
    main()
