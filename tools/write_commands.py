"""Generate `docs/commands.md` from the commands: `python tools/write_commands.py`. A test compares the two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import click
import typer

from squinney.assembly import SYSTEMS
from squinney.service.commands.main import command_for

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
INTRODUCTION = """# Commands

This page shows the output of `squinney COMMAND --help`; `python tools/write_commands.py` generates it. An error is one
sentence on stderr and an [exit code](errors.md) per family; Ctrl-C exits with 130;
SIGTERM ends `serve` and `worker` with 0. A command with `--json` prints only
JSON on stdout. `squinney --install-completion` enables completion of commands and options in your shell.

## Options for all commands

Before the command: `squinney --database shop doctor`. They override the [environment](settings.md)."""
SHARED = """## Options of many commands

After the command. Below, a command that has one of them only names it."""
MIN_COMMANDS = 4  # an option that is the same in so many commands is explained once


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name."""
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield path, command
        return
    for name, subcommand in subcommands.items():
        yield from commands(subcommand, f"{path} {name}")


def page() -> str:
    """Return the text of the page."""
    root = typer.main.get_command(command_for(SYSTEMS))
    every = list(commands(root, "squinney"))
    counts = Counter(row for _, command in every for row in _rows(command).values())
    shared = [row for row, count in counts.items() if count >= MIN_COMMANDS]
    sections = [_section(name, command, shared) for name, command in every]
    return "\n\n".join([INTRODUCTION, *_table(_rows(root).values()), SHARED, *_table(shared), *sections]) + "\n"


def _section(name: str, command: click.Command, shared: Collection[str]) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    shown = [(param.name or "").upper() if param.required else f"[{(param.name or '').upper()}]" for param in arguments]
    helps = [
        f"`{(param.name or '').upper()}`: {_one_line(param)}" for param in arguments if getattr(param, "help", None)
    ]
    text = re.sub(r"\n(?!\n)", " ", (command.help or "").replace("\n\n", "\0")).replace("\0", "\n\n")
    rows = _rows(command)
    own = [row for row in rows.values() if row not in shared]
    named = ", ".join(names for names, row in rows.items() if row in shared)
    also = [f"{'Also' if own else 'Options:'} {named}."] if named else []
    return "\n\n".join([" ".join([f"## {name}", *shown]), text, *helps, *_table(own), *also])


def _rows(command: click.Command) -> dict[str, str]:
    """Return the row of each option, by its names."""
    options = [param for param in command.params if param.param_type_name == "option" and param.name != "help"]
    return {_names(option): f"| {_names(option)} | {_one_line(option)} | {_default(option)} |" for option in options}


def _table(rows: Collection[str]) -> list[str]:
    """Return a table of options, or nothing."""
    return ["\n".join(["| option | what | default |", "|---|---|---|", *rows])] if rows else []


def _names(option: click.Parameter) -> str:
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _one_line(param: click.Parameter) -> str:
    return " ".join((getattr(param, "help", None) or "").split()).replace("|", "\\|").replace("*", "\\*")


def _default(option: click.Parameter) -> str:
    if option.required:
        return "required"
    default = option.default
    return "" if default is None or default in ("", False) or callable(default) else f"`{default}`"


if __name__ == "__main__":
    PAGE.write_text(page())
