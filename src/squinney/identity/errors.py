"""What identity refuses."""

from squinney.errors import Conflict, CredentialsRefused, NotFound, TooManyRequests


class UnknownPerson(NotFound):
    """There is no such person."""


class UnknownKey(NotFound):
    """There is no such API key."""


class LoginTaken(Conflict):
    """Somebody else has this login."""


class SignInRefused(CredentialsRefused):
    """The login or the password is wrong."""


class KeyRefused(CredentialsRefused):
    """The API key is missing, unknown, expired or revoked."""


class TooManyTries(TooManyRequests):
    """Too many attempts to sign in."""
