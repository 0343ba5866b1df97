"""`squinney`: the command with all its subcommands."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from pymongo.errors import OperationFailure, PyMongoError

from squinney import __version__
from squinney.assembly import SYSTEMS
from squinney.errors import SquinneyError, Unavailable
from squinney.http.commands import errors
from squinney.identity.surface import cli_keys as keys
from squinney.identity.surface import cli_users as users
from squinney.mongo.connect import is_away
from squinney.service.commands import doctor, indexes, migrate, prove, serve, shell, worker
from squinney.service.commands.exit_codes import INTERRUPTED, exit_code_of

# By way of its child: typer raises click's, or since some version those of a copy that it keeps for itself.
UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="squinney",
    help="Crash-safe application back ends on MongoDB.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("demo")(serve.demo)
app.command("doctor")(doctor.doctor)
app.command("indexes")(indexes.indexes)
app.command("migrate")(migrate.migrate)
app.command("prove")(prove.prove)
app.command("shell")(shell.shell)
app.command("worker")(worker.worker)
app.add_typer(worker.jobs_app, name="jobs")
app.add_typer(keys.app, name="keys")
app.add_typer(users.app, name="users")
for system in SYSTEMS:
    if find_spec(f"squinney.{system.name}.surface.cli"):
        app.add_typer(import_module(f"squinney.{system.name}.surface.cli").app, name=system.name)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"squinney {__version__}")
        raise typer.Exit


@app.callback()
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
    context.obj = {"uri": uri, "database": database, "data_folder": data}


def main() -> None:
    """Run the command; an error is one sentence and an exit code, a traceback only with --debug."""
    try:
        code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (SquinneyError, PyMongoError, OSError) as error:
        if "--debug" in sys.argv:
            raise
        told, exit_code = _told(error)
        errors.print(f"squinney: {told}", highlight=False, markup=False, soft_wrap=True)
        sys.exit(exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)
    except UsageError as error:
        error.show()
        sys.exit(error.exit_code)


def _told(error: SquinneyError | PyMongoError | OSError) -> tuple[str, int]:
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
