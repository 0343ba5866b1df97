"""Systems 9 and 10: pages, blog entries and photos, and the comments on them."""

from squinney.content.access import ANYBODY, TRUSTED, Viewer
from squinney.content.documents import COLLECTIONS, Access, Author, Comment, Node, Revision
from squinney.content.errors import (
    BadMedia,
    DiscussionFull,
    EditConflict,
    NotEmpty,
    SlugTaken,
    StrategyCannot,
    UnknownComment,
    UnknownNode,
    UploadLost,
)
from squinney.content.nodes import Nodes
from squinney.content.queries import QUERIES

__all__ = [
    "ANYBODY",
    "COLLECTIONS",
    "QUERIES",
    "TRUSTED",
    "Access",
    "Author",
    "BadMedia",
    "Comment",
    "DiscussionFull",
    "EditConflict",
    "Node",
    "Nodes",
    "NotEmpty",
    "Revision",
    "SlugTaken",
    "StrategyCannot",
    "UnknownComment",
    "UnknownNode",
    "UploadLost",
    "Viewer",
]
