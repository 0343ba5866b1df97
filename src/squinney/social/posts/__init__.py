"""Posts and their comments: writing, deleting, what one viewer sees of them, and who is notified."""

from __future__ import annotations
