"""What identity refuses."""

from squinney.errors import Conflict, CredentialsRefused, NotFound, TooManyRequests


class UnknownPerson(NotFound):
    """There is no such person."""

    code = "unknown-person"


class UnknownKey(NotFound):
    """There is no such API key."""

    code = "unknown-key"


class LoginTaken(Conflict):
    """Somebody else has this login."""

    code = "login-taken"


class SignInRefused(CredentialsRefused):
    """The login or the password is wrong."""

    code = "sign-in-refused"


class KeyRefused(CredentialsRefused):
    """The API key is missing, unknown, expired or revoked."""

    code = "key-refused"


class TooManyTries(TooManyRequests):
    """Too many attempts to sign in."""

    code = "too-many-tries"
