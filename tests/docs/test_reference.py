"""The reference pages say what the code has: every setting, command, option, error and public name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from squinney.api.problems import STATUSES
from squinney.cli.errors import EXIT_CODES
from squinney.cli.main import app
from squinney.settings import VARIABLES, Settings

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, without their backquotes."""
    return [[cell.strip().replace("`", "") for cell in row.split("|")] for row in ROW.findall(text)]


def section(page: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}( [^\n]*)?\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {title!r}"
    return found[2]


# ---- settings ----


def documented_settings() -> dict[str, list[str]]:
    page = (DOCS / "settings.md").read_text()
    return {row[1]: row for row in rows(page.split("## In the repository")[0]) if row[1] in Settings.model_fields}


def test_every_setting_is_documented_by_its_variable():
    assert {field: row[0] for field, row in documented_settings().items()} == VARIABLES
    assert set(VARIABLES) == set(Settings.model_fields)


@pytest.mark.parametrize("field", sorted(Settings.model_fields))
def test_documented_defaults_are_the_real_ones(field):
    default = Settings.model_fields[field].default
    assert documented_settings()[field][2] == ("none" if default is None else str(default))


# ---- commands ----


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if subcommands := getattr(command, "commands", None):
        for name, subcommand in subcommands.items():
            yield from commands(subcommand, f"{path} {name}")
    else:
        yield path, command


ROOT = typer.main.get_command(app)
COMMANDS = dict(commands(ROOT, "squinney"))


def options_of(command: click.Command) -> set[str]:
    declared = [param for param in command.params if param.param_type_name == "option"]
    return {name for param in declared for name in (*param.opts, *param.secondary_opts)} - {"--help"}


def documented_options(text: str) -> set[str]:
    return {name for row in rows(text) for name in re.findall(r"--[a-z-]+", row[0]) if name.strip("-")}


def test_every_command_has_a_section_and_no_other_has():
    titles = re.findall(r"^## (squinney [^\n]*)$", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert sorted(re.sub(r" \[?[A-Z].*", "", title) for title in titles) == sorted(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_and_argument_is_documented(name):
    page, command = (DOCS / "commands.md").read_text(), COMMANDS[name]
    assert documented_options(section(page, name)) == options_of(command)
    title = re.search(rf"^## {re.escape(name)}( [A-Z\[].*)?$", page, re.MULTILINE)
    arguments = [param.name for param in command.params if param.param_type_name == "argument"]
    assert title
    assert re.findall(r"[A-Z]+", title[1] or "") == [argument.upper() for argument in arguments if argument]


def test_the_options_for_all_commands_are_documented():
    page = (DOCS / "commands.md").read_text()
    assert documented_options(section(page, "For all commands").split("\n\n`--json`")[0]) == options_of(ROOT)


# ---- errors ----


def status_rows(cells: int) -> dict[str, int]:
    tables = [row for row in rows((DOCS / "errors.md").read_text()) if len(row) == cells]
    numbered = [(row[0], re.match(r"\d{3}", row[3 if cells == 5 else 1])) for row in tables]
    return {name: int(status[0]) for names, status in numbered if status for name in names.split(", ")}


def test_families_have_the_documented_exit_codes():
    families = [row for row in rows((DOCS / "errors.md").read_text()) if len(row) == 5]
    documented = {row[0]: int(row[4]) for row in families if row[4].isdecimal()}
    assert documented == {family.__name__: code for family, code in EXIT_CODES.items()}


def test_errors_have_the_documented_statuses():
    documented = status_rows(5) | status_rows(2)
    assert documented == {error.__name__: status for error, status in STATUSES.items()}
