"""Every error Squinney raises, as one tree.

SquinneyError
├── NotFound                 the thing asked for does not exist
│   ├── UnknownCampaign      ads
│   ├── UnknownSource        analytics
│   ├── UnknownCart          commerce
│   ├── UnknownCategory      commerce
│   ├── UnknownLine          commerce
│   ├── UnknownOrder         commerce
│   ├── UnknownPayment       commerce
│   ├── UnknownProduct       commerce
│   ├── UnknownComment       content
│   ├── UnknownNode          content: no such page, or not for this viewer
│   ├── UnknownCharacter     game
│   ├── UnknownLocation      game
│   ├── UnknownThing         game
│   ├── UnknownKey           identity
│   ├── UnknownPerson        identity
│   ├── UnknownAccount       ledger
│   ├── UnknownPost          social: no such post, or not for this viewer
│   └── UnknownUser          social
├── Invalid                  the input breaks a rule; names the field and the limit
│   ├── WriteRefused         the server refuses what a step writes: a validator, a size, a wrong type
│   ├── NotALog              analytics
│   ├── UnknownFormat        analytics
│   └── BadMedia             content: not an image or video that is accepted
├── Forbidden                the caller may not do this
│   ├── BadServe             ads: a serve id that the network did not give
│   ├── Blocked              social: one of the two has blocked the other
│   ├── SignInNeeded         http: nobody has signed in
│   └── CredentialsRefused   nobody knows who calls
│       ├── KeyRefused       identity: no API key, or one that is unknown, expired or revoked
│       └── SignInRefused    identity: the login or the password is wrong
├── Conflict                 the state of the data refuses it
│   ├── Cycle                a node of a tree would come under itself
│   ├── NotPrepared          an index is missing that the operation rests on; `squinney.prepare` makes it
│   ├── EditConflict         another edit came first; carries their version, yours and the base
│   ├── Unreadable           a stored document does not fit its type, or is newer than this program
│   ├── AlreadyExists        an insert met a document with the same id or unique value
│   ├── Busy                 another operation holds a document; try again
│   ├── KeyReused            the same idempotency key came with other arguments
│   ├── Stale                the plan was made from a document that has changed since
│   ├── StillRunning         the same idempotency key is at work elsewhere
│   ├── CampaignEnded        ads
│   ├── CampaignTaken        ads
│   ├── ServeExpired         ads: a beacon that comes too late
│   ├── UnitTaken            ads
│   ├── Frozen               analytics
│   ├── ImportRunning        analytics
│   ├── NotRolledUp          analytics
│   ├── CartClosed           commerce
│   ├── CartEmpty            commerce
│   ├── CategoryNotEmpty     commerce
│   ├── InadequateInventory  commerce
│   ├── OrderFixed           commerce
│   ├── PaymentDeclined      commerce
│   ├── PaymentRefunded      commerce
│   ├── ProductReserved      commerce
│   ├── SlugTaken            commerce: another category has that slug
│   ├── WrongCurrency        commerce
│   ├── NotEmpty             content: a node still has children
│   ├── SlugTaken            content: the parent has a node of that slug
│   ├── StrategyCannot       content: a discussion's storage cannot do this
│   ├── UploadLost           content: an upload stood still for too long
│   ├── InUse                game: it is worn or wielded
│   ├── IntoItself           game
│   ├── NameTaken            game
│   ├── NoExit               game
│   ├── NotEnoughGold        game
│   ├── NotForSale           game
│   ├── NotMadeForThat       game: a thing cannot be used like that
│   ├── OutOfReach           game: somebody or something is not here
│   ├── LoginTaken           identity
│   ├── AccountClosed        ledger
│   ├── AccountNotEmpty      ledger
│   ├── CurrencyMismatch     ledger
│   ├── InsufficientFunds    ledger
│   └── AlreadyJoined        social
├── LimitReached             a size, depth or rate limit is used up
│   ├── TooManyRequests      too many in too short a time; says how long to wait
│   │   ├── RateLimited      http: too many requests
│   │   ├── TooFast          game: a player does too much within a minute
│   │   ├── TooManyTries     identity: too many attempts to sign in
│   │   └── TooFast          social: too many posts, comments or circles within a minute
│   ├── CartLimit            commerce
│   ├── DepthLimit           commerce
│   ├── OrderLimit           commerce
│   ├── DiscussionFull       content: an embedded discussion outgrows its node
│   ├── NoSpace              game: too many things, or nested too deep
│   ├── TooHeavy             game
│   ├── BalanceLimit         ledger
│   └── SocialLimit          social
└── Unavailable              MongoDB is away or slow, or all are busy; the outcome may be unknown
    ├── NoServer             the embedded MongoDB cannot run here; says what to do
    ├── SnapshotTooOld       a check of stored data takes longer than the server can look back
    ├── TimedOut             the deadline passed; nothing was changed
    └── PaymentUnsettled     commerce: the payment provider did not respond

A system adds its own errors under a family, in its `errors.py`. The families map to HTTP statuses in
`http/statuses.py` and to exit codes in `service/commands/exit_codes.py`.
"""

from __future__ import annotations

import re
from typing import Any


class SquinneyError(Exception):
    """The root: a stable `code` for machines, a `message` for people, `details` for both.

    The code of `UnknownAccount` is `unknown-account`, and so on, unless a class gives another.
    """

    code = "error"

    def __init_subclass__(cls) -> None:
        if "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def __init__(self, message: str = "", **details: Any) -> None:
        self.message = message or (self.__doc__ or self.code).strip().splitlines()[0]
        self.details = details
        super().__init__(self.message)


class NotFound(SquinneyError):
    """It does not exist."""


class Invalid(SquinneyError):
    """The input breaks a rule."""


class Forbidden(SquinneyError):
    """The caller may not do this."""


class CredentialsRefused(Forbidden):
    """The key, login or password is missing or wrong."""


class Conflict(SquinneyError):
    """The state of the data refuses it."""


class NotPrepared(Conflict):
    """The database lacks an index that this rests on."""


class LimitReached(SquinneyError):
    """A limit is used up."""


class TooManyRequests(LimitReached):
    """Too many in too short a time."""


class Unavailable(SquinneyError):
    """It cannot be had now: MongoDB is away or too slow, or too much is being done. The message says which.

    `outcome_unknown` is true when the operation may have happened all the same: repeat it with its idempotency key.
    """

    def __init__(self, message: str = "", *, outcome_unknown: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.outcome_unknown = outcome_unknown


class NoServer(Unavailable):
    """The embedded MongoDB cannot run here."""
