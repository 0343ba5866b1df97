"""The reference pages say what the code has: every setting, command, option, error and public name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from tools import write_commands

from polls.system import SYSTEM as POLLS
from squinney import assembly
from squinney.cli.exit_codes import EXIT_CODES
from squinney.content.nodes.rules import TYPES
from squinney.http.statuses import STATUSES
from squinney.service.commands.main import command_for
from squinney.settings import VARIABLES, Settings

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, without their backquotes."""
    return [[cell.strip().replace("`", "") for cell in row.split("|")] for row in ROW.findall(text)]


# ---- settings ----


def documented_settings() -> dict[str, list[str]]:
    page = (DOCS / "settings.md").read_text()
    return {row[1]: row for row in rows(page.split("## Of a system")[0]) if row[1] in Settings.model_fields}


def test_every_setting_is_documented_by_its_variable():
    assert {field: row[0] for field, row in documented_settings().items()} == VARIABLES
    assert set(VARIABLES) == set(Settings.model_fields)


@pytest.mark.parametrize("field", sorted(Settings.model_fields))
def test_documented_defaults_are_the_real_ones(field):
    default = Settings.model_fields[field].default
    assert documented_settings()[field][2] == ("none" if default in (None, ()) else str(default))


# ---- commands ----


def test_the_page_of_commands_is_as_the_commands_are():
    written = (DOCS / "commands.md").read_text()
    assert written == write_commands.page(), "run: python tools/write_commands.py"


def test_every_command_says_what_it_does():
    commands = dict(write_commands.commands(typer.main.get_command(command_for(assembly.SYSTEMS)), "squinney"))
    assert len(commands) > 10
    assert [name for name, command in commands.items() if not command.help] == []


def test_every_option_says_what_it_is_for():
    commands = write_commands.commands(typer.main.get_command(command_for(assembly.SYSTEMS)), "squinney")
    options = [
        (name, option) for name, command in commands for option in command.params if option.opts[0].startswith("-")
    ]
    assert [f"{name} {option.opts[0]}" for name, option in options if not getattr(option, "help", None)] == []


SHELL = re.compile(r"^```(?:sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown_commands() -> list[tuple[str, list[str]]]:
    """Every `squinney ...` in the README's and the docs' blocks for a shell, with its page."""
    pages = [DOCS.parent / "README.md", *(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)]
    lines = [
        (page.name, line) for page in pages for block in SHELL.findall(page.read_text()) for line in block.splitlines()
    ]
    shown = [(page, line.removeprefix("$ ")) for page, line in lines]
    return [(page, shlex.split(line, comments=True)[1:]) for page, line in shown if line.startswith("squinney ")]


def test_commands_shown_in_the_docs_exist_with_their_options():
    shown = shown_commands()
    assert ("README.md", ["prove", "ledger", "--seconds", "30"]) in shown
    with_example = command_for((*assembly.SYSTEMS, POLLS))  # own-system.md shows the commands of the example
    for page, words in shown:
        command = typer.main.get_command(with_example)
        known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        for word in words:
            if word.startswith("-"):
                assert word.partition("=")[0] in known, f"{page}: squinney {' '.join(words)}: no option {word}"
            elif subcommand := getattr(command, "commands", {}).get(word):
                command = subcommand
                known |= {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        assert not hasattr(command, "commands"), f"{page}: squinney {' '.join(words)}: no such command"


# ---- jobs ----


def test_every_job_is_documented():
    documented = [row for row in rows((DOCS / "operations.md").read_text()) if row[1].endswith(" s")]
    assert [row[:3] for row in documented] == [
        [job.name, f"{job.every_seconds:g} s", job.what] for job in assembly.jobs()
    ]
    assert all(system and lost for *_, system, lost in documented), "say what is lost without the job"


# ---- types of nodes ----


def test_every_type_of_node_is_documented_with_its_detail():
    table = (DOCS / "content.md").read_text().partition("| type of a node |")[2].partition("\n\n")[0]
    documented = {name: row[2].split(", ") for row in rows(table) for name in row[0].split(", ")}
    assert {name: fields for name, fields in documented.items() if name in TYPES} == {
        name: list(detail.model_fields) for name, detail in TYPES.items()
    }


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
