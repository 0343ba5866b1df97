"""The errors of identity."""

from squinney.errors import Conflict, CredentialsRefused, NotFound, TooManyRequests


class UnknownPerson(NotFound):
    """The person does not exist."""


class UnknownKey(NotFound):
    """The API key does not exist."""


class LoginTaken(Conflict):
    """Another person has this login."""


class SignInRefused(CredentialsRefused):
    """The login or the password is wrong."""


class KeyRefused(CredentialsRefused):
    """The API key is missing, unknown, expired or revoked."""


class TooManyTries(TooManyRequests):
    """Too many attempts to sign in."""
