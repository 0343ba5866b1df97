"""What an error of the driver means: the server is away, ended a transaction, or rejects what was asked."""

from __future__ import annotations

from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)

UNAUTHORIZED = 13
INDEX_NOT_FOUND = 27
# A transaction that exceeds transactionLifetimeLimitSeconds, or the part of the cache that other transactions leave.
# The server does not label these errors as transient.
TRANSACTION_TOO_LONG, TRANSACTION_TOO_LARGE = 290, 388
INTERRUPTED = 11601


def is_away(error: PyMongoError) -> bool:
    """Return whether the error means that the server was unreachable, stepping down or too slow; not a rejection."""
    if isinstance(error, ConnectionFailure | ExecutionTimeout) or error.timeout:
        return True
    if isinstance(error, WriteConcernError):  # the write happened, but too few members confirmed it
        return True
    if isinstance(error, BulkWriteError):
        return not (error.details or {}).get("writeErrors")
    if ended_by_the_server(error):
        return True
    if isinstance(error, InvalidOperation):  # the client was closed during an operation
        return "after close" in str(error)
    if isinstance(error, ConfigurationError):  # while no member is known, the driver assumes that none has sessions
        return "Sessions are not supported" in str(error)
    return error.has_error_label("TransientTransactionError") or error.has_error_label("RetryableWriteError")


def ended_by_the_server(error: PyMongoError) -> bool:
    """Return whether the server aborted a transaction that was too long or too large; nothing was written."""
    return isinstance(error, OperationFailure) and error.code in (TRANSACTION_TOO_LONG, TRANSACTION_TOO_LARGE)


def was_interrupted(error: PyMongoError) -> bool:
    """Return whether a statement ended because its session was killed; the server does not label this as transient."""
    return isinstance(error, OperationFailure) and error.code == INTERRUPTED


def why_away(error: PyMongoError) -> str:
    """Return, in a sentence for the user, why the server was away."""
    if ended_by_the_server(error):
        return "MongoDB ended the transaction, which was too long or too large for it"
    slow = error.timeout and not isinstance(error, ServerSelectionTimeoutError)
    return "MongoDB took too long to answer" if slow else "MongoDB cannot be reached"
