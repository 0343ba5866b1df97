"""Every error that Squinney raises, as one tree.

```
SquinneyError
├── NotFound                 the requested object does not exist
│   ├── UnknownAd            ads
│   ├── UnknownCampaign      ads
│   ├── UnknownSource        analytics
│   ├── UnknownCart          commerce
│   ├── UnknownCategory      commerce
│   ├── UnknownLine          commerce
│   ├── UnknownOrder         commerce
│   ├── UnknownPayment       commerce
│   ├── UnknownProduct       commerce
│   ├── UnknownComment       content
│   ├── UnknownNode          content: the page does not exist, or this viewer may not see it
│   ├── UnknownCharacter     game
│   ├── UnknownLocation      game
│   ├── UnknownThing         game
│   ├── UnknownKey           identity
│   ├── UnknownPerson        identity
│   ├── UnknownAccount       ledger
│   ├── UnknownPost          social: the post does not exist, or this viewer may not see it
│   └── UnknownUser          social
├── Invalid                  the input is not valid; names the field and the limit
│   ├── WriteRefused         the server rejects what a step writes: a validator, a size, a wrong type
│   ├── NotALog              analytics
│   ├── NotUnderstood        analytics: every line of a log was rejected; says which formats were tried
│   ├── UnknownFormat        analytics
│   └── BadMedia             content: not an image or video of an accepted format
├── Forbidden                the caller may not do this
│   ├── BadServe             ads: a serve id that the network did not issue
│   ├── Blocked              social: the member has blocked the other
│   ├── SignInNeeded         http: the visitor has not signed in
│   └── CredentialsRefused   the caller's identity is unknown
│       ├── KeyRefused       identity: no API key, or one that is unknown, expired or revoked
│       └── SignInRefused    identity: the login or the password is wrong
├── Conflict                 the state of the stored data does not allow it
│   ├── Cycle                a node of a tree would become its own descendant
│   ├── NotPrepared          an index that the operation needs is missing; `squinney.prepare` creates it
│   ├── NotOurs              a collection of a declared name exists that Squinney did not make
│   ├── FormerNames          an older version made the database; `squinney migrate` renames its collections
│   ├── EditConflict         another edit came first; has their version, yours and the base
│   ├── Unreadable           a stored document does not match its type, or is newer than this program
│   ├── AlreadyExists        a document with the same id or unique value exists
│   ├── SlugTaken            another category, or another child of the parent, has that slug
│   ├── Busy                 another operation holds a document; try again
│   ├── KeyReused            the idempotency key was already used with other arguments
│   ├── StillRunning         an operation with the same key is still running
│   ├── Stale                the plan was made from a document that has changed since
│   ├── CampaignEnded        ads
│   ├── CampaignTaken        ads
│   ├── FundedEnough         ads: more money than the total budget of a campaign
│   ├── ReviewChanged        ads: an ad was changed after an editor had read it
│   ├── ServeExpired         ads: a beacon arrived too late
│   ├── UnitTaken            ads
│   ├── Frozen               analytics
│   ├── ImportRunning        analytics
│   ├── NotRolledUp          analytics
│   ├── CartClosed           commerce
│   ├── CartEmpty            commerce
│   ├── CategoryNotEmpty     commerce
│   ├── CheckoutRunning      commerce: another checkout of the cart is running
│   ├── InadequateInventory  commerce
│   ├── OrderFixed           commerce
│   ├── PaymentDeclined      commerce
│   ├── PaymentNeedsAction   commerce: the buyer would have to confirm the payment
│   ├── PaymentRefunded      commerce
│   ├── ProductReserved      commerce
│   ├── WrongCurrency        commerce
│   ├── NotEmpty             content: a node still has children
│   ├── StrategyCannot       content: the storage strategy of a discussion does not support this
│   ├── UploadLost           content: an upload made no progress for too long
│   ├── InUse                game: the item is worn or wielded
│   ├── IntoItself           game
│   ├── NameTaken            game
│   ├── NoExit               game
│   ├── NotEnoughGold        game
│   ├── NotForSale           game
│   ├── NotMadeForThat       game: a thing cannot be used in this way
│   ├── OutOfReach           game: a character or thing is not here
│   ├── LoginTaken           identity
│   ├── AccountClosed        ledger
│   ├── AccountNotEmpty      ledger
│   ├── CurrencyMismatch     ledger
│   ├── InsufficientFunds    ledger
│   └── AlreadyJoined        social
├── LimitReached             a size, depth or rate limit is reached
│   ├── TooManyRequests      too many requests in a short time; says how long to wait
│   │   ├── RateLimited      http: too many requests
│   │   ├── TooFast          somebody does too much within a minute: plays, or writes
│   │   └── TooManyTries     identity: too many attempts to sign in
│   ├── CartLimit            commerce
│   ├── DepthLimit           commerce
│   ├── OrderLimit           commerce
│   ├── DiscussionFull       content: an embedded discussion is too large for its node
│   ├── NoSpace              game: too many things, or nested too deep
│   ├── TooHeavy             game
│   ├── BalanceLimit         ledger
│   └── SocialLimit          social
└── Unavailable              MongoDB is unreachable or slow, or the process is overloaded; the outcome may be unknown
    ├── NoServer             the embedded MongoDB cannot run here; says what to do
    ├── TimedOut             the deadline of a two-phase run passed; nothing was changed
    ├── SnapshotTooOld       a check of stored data takes longer than the server keeps snapshots
    └── PaymentUnsettled     commerce: the payment provider has not reported the outcome

```
A system adds its own errors under a family, in its `errors.py`. The families map to HTTP statuses in
`http/statuses.py` and to exit codes in `cli/exit_codes.py`.
"""

from __future__ import annotations

import re
from typing import Any


class SquinneyError(Exception):
    """The root of all errors: a stable `code` for programs, a `message` for people, `details` for both.

    The code is derived from the class name (`unknown-account` for `UnknownAccount`), unless a class sets its own.
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
    """The requested object does not exist."""


class Invalid(SquinneyError):
    """The input is not valid."""


class Forbidden(SquinneyError):
    """The caller may not do this."""


class CredentialsRefused(Forbidden):
    """The key, login or password is missing or wrong."""


class Conflict(SquinneyError):
    """The state of the stored data does not allow this."""


class NotPrepared(Conflict):
    """The database lacks an index that this operation needs."""


class NotOurs(Conflict):
    """The database has a collection of this name that Squinney did not make."""


class FormerNames(Conflict):
    """An older version made this database, under other names of collections."""


class SlugTaken(Conflict):
    """Another category, or another child of the same parent, has this slug."""


class LimitReached(SquinneyError):
    """A limit is reached."""


class TooManyRequests(LimitReached):
    """Too many requests in a short time."""


class TooFast(TooManyRequests):
    """The limit of actions per minute is reached."""


class Unavailable(SquinneyError):
    """This is not possible now, because MongoDB is unreachable or slow, or the process is overloaded.

    `outcome_unknown` is true if the operation may have happened nevertheless: repeat it with its idempotency key.
    """

    def __init__(self, message: str = "", *, outcome_unknown: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.outcome_unknown = outcome_unknown


class NoServer(Unavailable):
    """The embedded MongoDB cannot run here."""
