"""Following changes of collections: `Follower` for one reader, `Feed` for many, `FollowerThread` to run one."""

from squinney.patterns.follow.feed import Feed, Reader
from squinney.patterns.follow.follower import COLLECTIONS, NAME, QUERIES, Change, Follower, Source
from squinney.patterns.follow.thread import FollowerThread

__all__ = ["COLLECTIONS", "NAME", "QUERIES", "Change", "Feed", "Follower", "FollowerThread", "Reader", "Source"]
