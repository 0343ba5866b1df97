"""`squinney`: the command with all subcommands. If the first word names a subcommand, only that one is imported."""

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
from squinney.http.commands import Invocation, errors
from squinney.mongo.connect import is_away
from squinney.mongo.schema import Db
from squinney.service.commands.exit_codes import INTERRUPTED, exit_code_of
from squinney.settings import Settings
from squinney.system import Assembled, System, module_at

# Taken from a subclass: depending on its version, typer raises click's errors or those of its own copy of click.
UsageError: Any = typer.BadParameter.__base__

# The module of each command; its function has the name of the command.
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
    """Return the command with all subcommands: those of the service, and those in each system's `surface/cli.py`.

    There, `app` is a group of commands with the system's name. A system with other groups lists them by name in `APPS`.
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


def _command_needed(arguments: Sequence[str]) -> typer.Typer:
    """Return the command with only the subcommand or group that the first word names, or with all."""
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
    """Create missing collections and build all systems. Imported here, because not every command needs them."""
    from squinney import assembly
    from squinney.mongo import schema

    systems = assembly.with_systems(settings.system_packages)
    existing = set(db.list_collection_names())
    schema.apply(db, [one for one in assembly.collections(systems) if one.name not in existing])
    return assembly.assemble(db, mode=settings.transaction_mode, systems=systems)


def _version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"squinney {__version__}")
        raise typer.Exit


def options(
    context: typer.Context,
    uri: Annotated[str | None, typer.Option(help="The URI of a replica set or sharded cluster [MONGODB_URI].")] = None,
    database: Annotated[str | None, typer.Option(help="The name of the database [SQUINNEY_DATABASE].")] = None,
    data: Annotated[Path | None, typer.Option(help="The data folder of the embedded MongoDB [SQUINNEY_DATA].")] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of all commands; they override the environment."""
    context.obj = Invocation({"uri": uri, "database": database, "data_folder": data}, _assemble)


def main() -> None:
    """Run the command. Errors print one sentence and set the exit code; tracebacks are shown only with --debug."""
    try:
        # For completion, the shell passes the words typed so far in the environment.
        words = os.environ.get("COMP_WORDS", "").split()[1:] if "_SQUINNEY_COMPLETE" in os.environ else sys.argv[1:]
        code = _command_needed(words)(standalone_mode=False)
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
    """Return the message and the exit code of an error."""
    if isinstance(error, PyMongoError) and is_away(error):
        error = Unavailable("MongoDB cannot be reached, or is too slow")
    if isinstance(error, SquinneyError):
        return error.message, exit_code_of(error)
    if isinstance(error, OperationFailure):
        return f"MongoDB refused the operation: {(error.details or {}).get('errmsg', error)}", 1
    return str(error), 1


if __name__ == "__main__":
    main()
