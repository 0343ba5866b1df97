"""Operations that may send several writes but need no case in the crash sweep, and operations that no test calls, each
with a reason."""

from __future__ import annotations

_TRIES_AGAIN = "it retries only if the previous update matched nothing"
_READS = "a read starts a discussion, or ends a conversion that timed out: each is one complete update"

ONE_AT_A_TIME: dict[str, str] = {
    "Nodes.publish": _TRIES_AGAIN,
    "Nodes.unpublish": _TRIES_AGAIN,
    "Nodes.set_access": _TRIES_AGAIN,
    "Nodes.change_tags": _TRIES_AGAIN,
    "Nodes.remove_tags": _TRIES_AGAIN,
    "Comments.page": _READS,
    "Comments.get": _READS,
    "Comments.discussion": _READS,
    "Comments.page_showing": _READS,
    "Moderation.queue": _READS,
    "Follower.follow": "each save of its position is one update; tests/patterns/test_follow.py kills it repeatedly",
    "Copies.start": "it starts a follower, which refreshes each copy separately; see tests/systems/game",
    "Feed.read": "it starts a follower, which saves nothing",
    "Queue.take": "each update is the only write for its task",
    "Queue.handle": "it handles one task; ending the task is the case Queue.done",
    "Queue.work": "each task is separate; ending a task is the case Queue.done",
    "Migration.run": "each document is migrated separately; tests/patterns/test_migrations.py kills it at every write",
}
UNCALLED: dict[str, str] = {
    "BufferedHits.flush_on_sigterm": "tests/systems/analytics/test_feed.py calls it in a process that it kills",
}
