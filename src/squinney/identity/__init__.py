"""People, passwords, sessions, roles and API keys. Other systems see an opaque `user_id`."""

from squinney.identity.documents import COLLECTIONS, ApiKey, Person, Session
from squinney.identity.errors import KeyRefused, LoginTaken, SignInRefused, TooManyTries, UnknownKey, UnknownPerson
from squinney.identity.invitations import Invitations
from squinney.identity.keys import Keys
from squinney.identity.new_accounts import NewAccounts
from squinney.identity.people import People
from squinney.identity.queries import QUERIES
from squinney.identity.repair import find_problems, repair
from squinney.identity.rules import allows
from squinney.identity.sessions import Sessions
from squinney.roles import ROLES, may_act_as

__all__ = [
    "COLLECTIONS",
    "QUERIES",
    "ROLES",
    "ApiKey",
    "Invitations",
    "KeyRefused",
    "Keys",
    "LoginTaken",
    "NewAccounts",
    "People",
    "Person",
    "Session",
    "Sessions",
    "SignInRefused",
    "TooManyTries",
    "UnknownKey",
    "UnknownPerson",
    "allows",
    "find_problems",
    "may_act_as",
    "repair",
]
