"""Send the updates and deletes of a bulk write one by one: to the server they are not one write.

Other clients read and write between two of them, and after the first the server or the connection may end. The
documents of one insert command are stored together, so they stay together here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from pymongo import message

MAX_APART = 10  # the statements at the end of a bulk write that are sent one by one; others in halves


@contextmanager
def statements_apart(is_wanted: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """In the `with` block, send bulk writes in this way where `is_wanted()`, except those in transactions."""
    together = message._BulkWriteContext.batch_command

    def apart(self: Any, command: Any, statements: Any) -> Any:
        in_transaction = self.session and self.session.in_transaction
        # guard: the statements of a bulk write are sent apart
        if self.name in ("update", "delete") and not in_transaction and is_wanted():
            statements = list(statements)
            statements = statements[: 1 if len(statements) <= MAX_APART else len(statements) // 2]
        return together(self, command, statements)

    with patch.object(message._BulkWriteContext, "batch_command", apart):
        yield
