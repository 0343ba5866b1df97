"""`squinney keys` and `squinney users`."""

from squinney.identity.surface import cli_keys, cli_users

APPS = {"keys": cli_keys.app, "users": cli_users.app}
