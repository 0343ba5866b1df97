"""System 12: the social network."""

from squinney.errors import TooFast
from squinney.social.demo import demo
from squinney.social.documents import (
    CIRCLES,
    COLLECTIONS,
    PUBLIC,
    Circled,
    Comment,
    Listed,
    Notice,
    Person,
    Post,
    Profile,
    User,
)
from squinney.social.errors import AlreadyJoined, Blocked, SocialLimit, UnknownPost, UnknownUser
from squinney.social.network import Network
from squinney.social.queries import QUERIES
from squinney.social.repair import find_problems, repair

__all__ = [
    "CIRCLES",
    "COLLECTIONS",
    "PUBLIC",
    "QUERIES",
    "AlreadyJoined",
    "Blocked",
    "Circled",
    "Comment",
    "Listed",
    "Network",
    "Notice",
    "Person",
    "Post",
    "Profile",
    "SocialLimit",
    "TooFast",
    "UnknownPost",
    "UnknownUser",
    "User",
    "demo",
    "find_problems",
    "repair",
]
