"""`squinney`: the command with all subcommands. If the first word names a subcommand, only that one is imported."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from pymongo.errors import OperationFailure, PyMongoError

from squinney import __version__
from squinney.cli.connecting import Invocation
from squinney.cli.exit_codes import FAILED, INTERRUPTED, exit_code_of
from squinney.cli.parameters import SYSTEMS_HELP
from squinney.cli.printing import errors
from squinney.errors import Invalid, SquinneyError, Unavailable
from squinney.mongo.failures import UNAUTHORIZED, is_away
from squinney.mongo.schema import Db
from squinney.settings import Settings
from squinney.system import Assembled, System, module_at

ROLES = "docs/operations.md lists the roles that each command needs"
# Taken from a subclass: depending on its version, typer raises click's errors or those of its own copy of click.
UsageError: Any = typer.BadParameter.__base__

# The module of each command; its function has the name of the command.
COMMANDS = {
    "serve": "serve",
    "backup": "backup",
    "demo": "demo",
    "doctor": "doctor",
    "indexes": "indexes",
    "migrate": "migrate",
    "prove": "prove",
    "remove": "remove",
    "restore": "restore",
    "shell": "shell",
    "worker": "worker",
}
WITH_VALUE = ("--uri", "--database", "--data", "--systems")


def command_for(systems: Sequence[System]) -> typer.Typer:
    """Return the command with all subcommands: those of the service, and those in each system's `surface/cli.py`.

    There, `app` is a group of commands with the system's name. A system with other groups lists them by name in `APPS`.
    """
    app = _empty()
    for name in COMMANDS:
        _add_own(app, name)
    app.add_typer(_own("worker").jobs_app, name="jobs")
    app.add_typer(_own("shard").shard_app, name="shard")
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
    names = _names(arguments)
    if module and names and not {word, f"squinney.{word}", "all"} & set(names):
        raise Invalid(f"the system {word} is not one of the chosen ones: {', '.join(names)}", field="systems")
    if module and hasattr(module, "app"):
        app.add_typer(module.app, name=word)
        return app
    from squinney.assembly import chosen_systems

    return command_for(chosen_systems(_names(arguments)))


def _names(arguments: Sequence[str]) -> list[str]:
    """Return the names of the chosen systems: those of the option before the first word, or of the environment."""
    given = dict(pairwise(arguments)).get("--systems")
    return Settings.from_environment(systems=given).system_names


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


def _assemble(db: Db, settings: Settings, adopt: Sequence[str], rename: bool) -> Assembled:
    """Create missing collections and build all systems. Imported here, because not every command needs them."""
    from squinney import assembly
    from squinney.cli.printing import print_line
    from squinney.mongo import schema

    systems = assembly.chosen_systems(settings.system_names)
    declared = assembly.collections(systems)
    if rename and (renamed := assembly.rename_former(db, systems)):
        print_line(f"renamed {len(renamed)} collections of an older version")
        schema.apply(db, declared, adopt=adopt)
    schema.create_missing(db, declared, adopt=adopt)
    if not settings.uri:  # on a server of their own, people decide when
        assembly.run_required_migrations(db, systems)
    return assembly.assemble(db, systems=systems)


def _version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"squinney {__version__}")
        raise typer.Exit


def options(
    context: typer.Context,
    uri: Annotated[str | None, typer.Option(help="The URI of a replica set or sharded cluster [MONGODB_URI].")] = None,
    database: Annotated[str | None, typer.Option(help="The name of the database [SQUINNEY_DATABASE].")] = None,
    data: Annotated[Path | None, typer.Option(help="The data folder of the embedded MongoDB [SQUINNEY_DATA].")] = None,
    systems: Annotated[str | None, typer.Option(metavar="NAMES", help=SYSTEMS_HELP)] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of all commands; they override the environment."""
    context.obj = Invocation({"uri": uri, "database": database, "data_folder": data, "systems": systems}, _assemble)


def main() -> None:
    """Run the command. Errors print one sentence and set the exit code; tracebacks are shown only with --debug."""
    try:
        # For completion, the shell passes the words typed so far in the environment.
        # guard: completion reads the words from the environment
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
    except ModuleNotFoundError:
        raise  # `start` names the package
    except Exception:  # a fault of the program
        traceback.print_exc()
        sys.exit(FAILED)


def _message(error: SquinneyError | PyMongoError | OSError) -> tuple[str, int]:
    """Return the message and the exit code of an error."""
    if isinstance(error, PyMongoError) and is_away(error):
        error = Unavailable("MongoDB cannot be reached, or is too slow")
    if isinstance(error, SquinneyError):
        return error.message, exit_code_of(error)
    if isinstance(error, OperationFailure) and error.code == UNAUTHORIZED:
        said, _, command = str((error.details or {}).get("errmsg", error)).partition(" { ")
        refused = f"{said} {command.partition(':')[0]}".strip()
        return f"MongoDB refused the operation: {refused}; {ROLES}", FAILED
    if isinstance(error, OperationFailure):
        return f"MongoDB refused the operation: {(error.details or {}).get('errmsg', error)}", FAILED
    return str(error), FAILED


if __name__ == "__main__":
    main()
