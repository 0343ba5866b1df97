"""`squinney`: the command with all its subcommands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pymongo.errors import OperationFailure, PyMongoError

from squinney import __version__
from squinney.assembly import SYSTEMS, with_systems
from squinney.errors import SquinneyError, Unavailable
from squinney.http.commands import Call, errors
from squinney.mongo.connect import is_away
from squinney.service.commands import doctor, indexes, migrate, prove, serve, shell, worker
from squinney.service.commands.exit_codes import INTERRUPTED, exit_code_of
from squinney.service.commands.systems import assemble
from squinney.settings import Settings
from squinney.system import System

# By way of its child: typer raises click's, or since some version those of a copy that it keeps for itself.
UsageError: Any = typer.BadParameter.__base__

COMMANDS: dict[str, Callable[..., None]] = {
    "serve": serve.serve,
    "demo": serve.demo,
    "doctor": doctor.doctor,
    "indexes": indexes.indexes,
    "migrate": migrate.migrate,
    "prove": prove.prove,
    "shell": shell.shell,
    "worker": worker.worker,
}


def command_for(systems: Sequence[System]) -> typer.Typer:
    """The command with its own subcommands, and those that the systems have in `surface/cli.py`.

    There `app` is the group of commands named after the system; a system that wants other groups has them in `APPS`.
    """
    app = typer.Typer(
        name="squinney",
        help="Crash-safe application back ends on MongoDB.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    for name, command in COMMANDS.items():
        app.command(name)(command)
    app.add_typer(worker.jobs_app, name="jobs")
    for system in systems:
        if module := system.surface("cli"):
            groups = module.APPS if hasattr(module, "APPS") else {system.name: module.app}
            for name, group in groups.items():
                app.add_typer(group, name=name)
    return app


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
    context.obj = Call({"uri": uri, "database": database, "data_folder": data}, assemble)


app = command_for(SYSTEMS)


def main() -> None:
    """Run the command; an error is one sentence and an exit code, a traceback only with --debug."""
    try:
        packages = Settings.from_environment().system_packages
        code = (command_for(with_systems(packages)) if packages else app)(standalone_mode=False)
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
