"""Settings from the environment."""

from __future__ import annotations

import pytest

from squinney.errors import Invalid
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
