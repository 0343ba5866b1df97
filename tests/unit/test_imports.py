"""What imports load and require: the package itself nothing, a system only PyMongo and Pydantic."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# What the extras bring; none of it may be needed to import a system.
OF_EXTRAS = [
    *("PIL", "argon2", "fastapi", "jinja2", "markdown_it", "matplotlib", "multipart", "nh3", "platformdirs"),
    *("prometheus_client", "psutil", "pycurl", "rich", "starlette", "stripe", "typer", "uvicorn", "yaml", "zstandard"),
]
WITHOUT_EXTRAS = f"import sys; sys.modules.update(dict.fromkeys({OF_EXTRAS}))\n"


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})


def test_importing_the_package_loads_nothing_heavy():
    program = "import sys, squinney; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = set(python(program).stdout.split())
    assert "squinney" in loaded
    assert loaded & {"pymongo", "bson", "pydantic", "importlib_metadata", *OF_EXTRAS} == set()


def test_the_version_is_printed_without_imports():
    program = """
import sys
sys.argv = ["squinney", "--version"]
from squinney.service.commands import start
start.main()
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
    said, loaded = python(program).stdout.splitlines()
    assert said == "squinney 0.1.0"
    assert set(loaded.split()) & {"pymongo", "bson", "pydantic", *OF_EXTRAS} == set()


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["ledger", "--help"], {}),
        (["--uri", "commerce", "ledger", "--help"], {}),
        ([], {"_SQUINNEY_COMPLETE": "complete_bash", "COMP_WORDS": "squinney ledger tra", "COMP_CWORD": "2"}),
    ],
)
def test_commands_of_a_group_load_no_other(arguments, environment):
    program = f"""
import os, sys
sys.argv = ["squinney", *{arguments}]
os.environ.update({environment})
from squinney.service.commands import start
try:
    start.main()
finally:
    print(*sorted({{".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("squinney.")}}))
"""
    *said, loaded = python(program).stdout.splitlines()
    assert any("transfer" in line for line in said)
    assert {"squinney.commerce", "squinney.content", "squinney.assembly"}.isdisjoint(loaded.split())


def test_every_system_is_imported_without_the_extras():
    done = python(WITHOUT_EXTRAS + "import squinney.assembly")
    assert (done.returncode, done.stderr) == (0, "")


def test_statuses_of_errors_need_no_web_framework():
    program = (
        "from squinney import NotFound; from squinney.http.statuses import status_of; print(status_of(NotFound()))"
    )
    assert python(WITHOUT_EXTRAS + program).stdout == "404\n"


def test_mount_without_a_web_framework_says_what_to_install():
    said = python(WITHOUT_EXTRAS + "import squinney; squinney.mount").stderr
    assert said.endswith("ImportError: squinney.mount needs starlette: pip install 'squinney[server]'\n")


@pytest.mark.parametrize("program", ["--help", "serve"])
def test_the_command_without_its_packages_says_what_to_install(program):
    done = python(WITHOUT_EXTRAS + "from squinney.service.commands.start import main; main()", program)
    assert (done.returncode, done.stdout) == (70, "")
    needs = "the command needs typer, which is not installed"
    assert done.stderr == f"squinney: {needs}: pip install 'squinney[server]', or '.[server]' in a clone\n"


@pytest.mark.parametrize(
    ("program", "package"),
    [
        ("import io; from squinney.content.files import media; media.decoded_picture(io.BytesIO())", "Pillow"),
        ("from squinney.identity.passwords import hashed; hashed('long enough')", "argon2-cffi"),
    ],
)
def test_a_missing_package_names_the_extra(program, package):
    last = python(WITHOUT_EXTRAS + program).stderr.splitlines()[-1]
    assert package in last
    assert "pip install 'squinney[" in last
