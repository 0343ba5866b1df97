"""The settings of a process, each set by one environment variable.

Options of the command line override them. `docs/settings.md` lists them, and a test compares the two.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, SecretStr, ValidationError, field_validator

from squinney.errors import Invalid

VARIABLES = {
    "uri": "MONGODB_URI",
    "database": "SQUINNEY_DATABASE",
    "data_folder": "SQUINNEY_DATA",
    "mongod": "SQUINNEY_MONGOD",
    "systems": "SQUINNEY_SYSTEMS",
    "secret": "SQUINNEY_SECRET",
    "api_keys": "SQUINNEY_API_KEYS",
    "host": "HOST",
    "port": "PORT",
    "log_format": "SQUINNEY_LOG",
    "log_level": "SQUINNEY_LOG_LEVEL",
    "log_addresses": "SQUINNEY_LOG_ADDRESSES",
    "slow_ms": "SQUINNEY_SLOW_MS",
    "rate_per_key": "SQUINNEY_RATE_PER_KEY",
    "rate_per_address": "SQUINNEY_RATE_PER_ADDRESS",
    "refusals_per_second": "SQUINNEY_REFUSALS_PER_SECOND",
    "trusted_proxies": "SQUINNEY_TRUSTED_PROXIES",
    "metrics_from": "SQUINNEY_METRICS_FROM",
    "drain_seconds": "SQUINNEY_DRAIN_SECONDS",
    "sign_up": "SQUINNEY_SIGN_UP",
    "new_account_hours": "SQUINNEY_NEW_ACCOUNT_HOURS",
    "proof_seconds": "SQUINNEY_PROOF_SECONDS",
    "appearance": "SQUINNEY_APPEARANCE",
    "page_view_days": "SQUINNEY_PAGE_VIEW_DAYS",
    "try_as": "SQUINNEY_TRY_AS",
}
# These may also be in a file, which a variable with this ending names.
SECRETS = ("uri", "secret", "api_keys")
FROM_FILE = "_FILE"
DATABASE = re.compile(r"[A-Za-z0-9_-]{1,38}", re.ASCII)
MAX_SHOWN = 60


class Settings(BaseModel):
    """The settings of one process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str | None = Field(None, description="A replica set or sharded cluster; without it the embedded MongoDB runs")
    database: str = Field("squinney", description="The database's name")
    data_folder: Path | None = Field(None, description="Where the embedded MongoDB keeps its data")
    mongod: Path | None = Field(None, description="The mongod binary to run as the embedded server")
    systems: str | None = Field(None, description="The systems to run, separated by commas; by default all")
    secret: SecretStr | None = Field(None, description="Signs cursors and forms; required with a URI")
    api_keys: SecretStr | None = Field(None, description="Keys of the API without the system `identity`")
    host: str = Field("127.0.0.1", description="The address the service listens on")
    port: int = Field(8080, ge=0, le=65535, description="The port the service listens on")
    log_format: Literal["human", "json"] = Field("human", description="Logs for people or for machines")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least level that is logged"
    )
    log_addresses: Literal["on", "off"] = Field("off", description="Whether the lines of requests have the address")
    slow_ms: FiniteFloat = Field(
        2000, ge=0, description="Milliseconds from which on a command of the driver is logged as slow; 0 logs none"
    )
    rate_per_key: FiniteFloat = Field(200, ge=0, description="Requests a second with one API key; 0 is no limit")
    rate_per_address: FiniteFloat = Field(50, ge=0, description="Requests a second from one address; 0 is no limit")
    refusals_per_second: FiniteFloat = Field(
        30,
        ge=0,
        description="Refusals a second to callers without an API key; further ones wait up to 3 s; 0 is no limit",
    )
    trusted_proxies: tuple[str, ...] = Field(
        (), description="Proxies whose forwarded headers are trusted: addresses and networks, separated by commas"
    )
    metrics_from: tuple[str, ...] = Field(
        ("127.0.0.1", "::1"), description="Who may read /metrics: addresses and networks, separated by commas"
    )
    drain_seconds: FiniteFloat = Field(
        0, ge=0, le=600, description="Seconds after SIGTERM in which /readyz fails and requests are still answered"
    )
    sign_up: Literal["open", "closed"] = Field(
        "open", description="Whether anyone may sign up; if closed, only people whom an admin invites"
    )

    new_account_hours: FiniteFloat = Field(
        24, ge=0, le=8_760, description="Hours in which a new account may publish only a few texts; 0 is no limit"
    )

    proof_seconds: FiniteFloat = Field(
        40, ge=0, le=300, description="Seconds that a proof on the home page takes; 0 turns it off"
    )
    appearance: Path | None = Field(None, description="A folder with the site's own name, logo, colours and templates")
    page_view_days: FiniteFloat = Field(
        30, ge=0, le=3_660, description="Days for which views of pages are kept as events; 0 counts no views"
    )
    try_as: Literal["on", "off"] = Field(
        "on", description="Whether visitors on this machine can try the demo as a member, an editor or an admin"
    )

    @field_validator("database")
    @classmethod
    def _name(cls, given: str) -> str:
        if not DATABASE.fullmatch(given):
            shown = given[:MAX_SHOWN] + ("..." if len(given) > MAX_SHOWN else "")
            raise ValueError(f"the database {shown!r}: a name has 1 to 38 letters, digits, _ and -")
        return given

    @field_validator("trusted_proxies", "metrics_from", mode="before")
    @classmethod
    def _networks(cls, given: object) -> object:
        proxies = [proxy.strip() for proxy in given.split(",")] if isinstance(given, str) else given
        for proxy in proxies if isinstance(proxies, list | tuple) else ():
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                raise ValueError(f"{proxy!r} is neither an address nor a network like 10.0.0.0/8") from None
        return proxies

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ, **overrides: object) -> Self:
        """Read the settings from the environment; `overrides` that are not None replace them.

        Raises: `Invalid` naming the variable.
        """
        values: dict[str, object] = {
            field: value
            for field, name in VARIABLES.items()
            if (value := secret_in(environment, name) if field in SECRETS else environment.get(name))
        }
        values.update({field: value for field, value in overrides.items() if value is not None})
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            field = str(first["loc"][0]) if first["loc"] else "settings"
            reason = first["msg"].removeprefix("Value error, ")
            raise Invalid(f"{VARIABLES.get(field, field)}: {reason}", field=field) from None

    @property
    def system_names(self) -> list[str]:
        """The names of the chosen systems; empty means all of ours."""
        return [package.strip() for package in (self.systems or "").split(",") if package.strip()]


def secret_in(environment: Mapping[str, str], name: str) -> str:
    """Return the value of a variable, or the content of the file that `NAME_FILE` names; empty if neither is set.

    Raises: `Invalid` if both are set, or the file cannot be read.
    """
    value, file = environment.get(name, ""), environment.get(name + FROM_FILE, "")
    if not file:
        return value
    # guard: a secret has one source
    if value:
        raise Invalid(f"{name}: {name}{FROM_FILE} is set too; unset one of them", field=name)
    try:
        value = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise Invalid(f"{name}{FROM_FILE}: {file} cannot be read ({why})", field=name) from None
    if not value:
        raise Invalid(f"{name}{FROM_FILE}: {file} is empty", field=name)
    return value
