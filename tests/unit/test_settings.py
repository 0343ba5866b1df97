"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from squinney.commerce.jobs import gateway_for
from squinney.errors import Invalid
from squinney.service.secret import secrets_for
from squinney.settings import VARIABLES, Settings


def test_every_setting_has_a_variable() -> None:
    assert VARIABLES.keys() == Settings.model_fields.keys()


def test_the_environment_is_read_and_overridden() -> None:
    environment = {"MONGODB_URI": "mongodb://db", "PORT": "9000", "SQUINNEY_DATABASE": ""}
    settings = Settings.from_environment(environment, port=9001, host=None)
    assert (settings.uri, settings.port, settings.host, settings.database) == (
        "mongodb://db",
        9001,
        "127.0.0.1",
        "squinney",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("PORT", "x"),
        ("SQUINNEY_DATABASE", "a/b"),
        ("SQUINNEY_RATE_PER_KEY", "inf"),
        ("SQUINNEY_RATE_PER_ADDRESS", "nan"),
    ],
)
def test_a_bad_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(Invalid, match=f"^{name}: "):
        Settings.from_environment({name: value})


@pytest.mark.parametrize("name", ["a b", "x" * 39, ""])
def test_a_name_that_no_database_may_have_is_refused_with_the_limit(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        Settings.from_environment({}, database=name)
    shown = repr(name)
    assert refused.value.message == (
        f"SQUINNEY_DATABASE: the database {shown}: a name has 1 to 38 letters, digits, _ and -"
    )


def test_a_secret_is_not_shown() -> None:
    settings = Settings.from_environment({"SQUINNEY_SECRET": "hunter2 and more of it"})
    assert "hunter2" not in repr(settings)


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("a secret of thirty-two letters!!\n  the one before, of thirty-two ...\n\n")
    settings = Settings.from_environment({"SQUINNEY_SECRET_FILE": str(file), "SQUINNEY_SECRET": ""})
    assert secrets_for(settings, None) == (b"a secret of thirty-two letters!!", b"the one before, of thirty-two ...")
    file.write_text("mongodb://a,b/?replicaSet=rs\n")
    assert Settings.from_environment({"MONGODB_URI_FILE": str(file)}).uri == "mongodb://a,b/?replicaSet=rs"
    file.write_text("sk_live_x\n")
    with pytest.raises(Invalid, match="must be a Stripe test key"):
        gateway_for(cast(Any, None), {"SQUINNEY_STRIPE_KEY_FILE": str(file)})


def test_a_file_of_a_secret_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_text("long enough, the first one of the two\nshort\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for file, told in (("missing", "No such file"), ("empty", "is empty"), ("bytes", "not UTF-8"), ("", "directory")):
        with pytest.raises(Invalid, match=f"SQUINNEY_SECRET_FILE: .*{told}"):
            Settings.from_environment({"SQUINNEY_SECRET_FILE": str(tmp_path / file)})
    with pytest.raises(Invalid, match="SQUINNEY_SECRET_FILE is set too"):
        Settings.from_environment({"SQUINNEY_SECRET_FILE": str(tmp_path / "short"), "SQUINNEY_SECRET": "x" * 32})
    with pytest.raises(Invalid, match="at least 32"):
        secrets_for(Settings.from_environment({"SQUINNEY_SECRET_FILE": str(tmp_path / "short")}), None)
