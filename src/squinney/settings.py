"""The settings of a process, each set by one environment variable.

Options of the command line override them. `docs/settings.md` lists them, and a test compares the two.
"""

from __future__ import annotations

import ipaddress
import os
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
    "transaction_mode": "SQUINNEY_TRANSACTIONS",
    "systems": "SQUINNEY_SYSTEMS",
    "secret": "SQUINNEY_SECRET",
    "host": "HOST",
    "port": "PORT",
    "log_format": "SQUINNEY_LOG",
    "rate_per_key": "SQUINNEY_RATE_PER_KEY",
    "rate_per_address": "SQUINNEY_RATE_PER_ADDRESS",
    "refusals_per_second": "SQUINNEY_REFUSALS_PER_SECOND",
    "trusted_proxies": "SQUINNEY_TRUSTED_PROXIES",
    "sign_up": "SQUINNEY_SIGN_UP",
}


class Settings(BaseModel):
    """The settings of one process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str | None = Field(None, description="A replica set or sharded cluster; without it the embedded MongoDB runs")
    database: str = Field("squinney", pattern=r"^[A-Za-z0-9_-]{1,38}$", description="The database's name")
    data_folder: Path | None = Field(None, description="Where the embedded MongoDB keeps its data")
    mongod: Path | None = Field(None, description="The mongod binary to run as the embedded server")
    transaction_mode: Literal["auto", "native", "two-phase"] = Field(
        "auto", description="How multi-document operations run"
    )
    systems: str | None = Field(None, description="Packages of further systems, separated by commas")
    secret: SecretStr | None = Field(None, description="Signs cursors and sessions; required with a URI")
    host: str = Field("127.0.0.1", description="The address the service listens on")
    port: int = Field(8080, ge=0, le=65535, description="The port the service listens on")
    log_format: Literal["human", "json"] = Field("human", description="Logs for people or for machines")
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
    sign_up: Literal["open", "closed"] = Field(
        "open", description="Whether anyone may sign up; if closed, only people whom an admin invites"
    )

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _networks(cls, given: object) -> object:
        proxies = [one.strip() for one in given.split(",")] if isinstance(given, str) else given
        for one in proxies if isinstance(proxies, list | tuple) else ():
            try:
                ipaddress.ip_network(one)
            except ValueError:
                raise ValueError(f"{one!r} is neither an address nor a network like 10.0.0.0/8") from None
        return proxies

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ, **overrides: object) -> Self:
        """Read the settings from the environment; `overrides` that are not None replace them.

        Raises: `Invalid` naming the variable.
        """
        values: dict[str, object] = {
            field: environment[name] for field, name in VARIABLES.items() if environment.get(name)
        }
        values.update({field: value for field, value in overrides.items() if value is not None})
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            field = str(first["loc"][0]) if first["loc"] else "settings"
            raise Invalid(f"{VARIABLES.get(field, field)}: {first['msg']}", field=field) from None

    @property
    def system_packages(self) -> list[str]:
        """The names of the packages of further systems."""
        return [package.strip() for package in (self.systems or "").split(",") if package.strip()]
