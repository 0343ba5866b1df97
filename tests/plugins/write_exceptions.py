"""Operations that may send several writes and need no case in the crash sweep, and those that no test calls, with
reasons."""

from __future__ import annotations

_TRIES_AGAIN = "it tries again only where the update before matched nothing"
_READS = "a read begins a discussion or ends a conversion that ran out: one update each, and complete"

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
    "Follower.follow": "it saves its place, one update each; tests/patterns/test_follow.py kills it again and again",
    "Copies.start": "it begins a follower, which refreshes each copy by itself, as tests/systems/game shows",
    "Feed.read": "it begins a follower, which saves nothing",
    "Queue.take": "each update is all that happens to one task",
    "Queue.handle": "its one task; its end is the case Queue.done",
    "Queue.work": "each task by itself; its end is the case Queue.done",
    "Migration.run": "each document by itself; tests/patterns/test_migrations.py kills it at every write",
}
UNCALLED: dict[str, str] = {
    "BufferedHits.flush_on_sigterm": "tests/systems/analytics/test_feed.py calls it in a process that it kills",
}
