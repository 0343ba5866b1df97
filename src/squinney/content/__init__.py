"""Systems 9 and 10: pages, blog entries and photos, and the comments on them."""

from squinney.content.comments import queries as comment_queries
from squinney.content.comments.comments import Comments
from squinney.content.comments.discussions import CAPABILITIES
from squinney.content.comments.documents import COMMENT_COLLECTIONS
from squinney.content.comments.moderation import Moderation
from squinney.content.comments.people import People
from squinney.content.demo import demo
from squinney.content.documents import Author, Comment
from squinney.content.errors import (
    BadMedia,
    DiscussionFull,
    NotEmpty,
    StrategyCannot,
    UnknownComment,
    UnknownNode,
    UploadLost,
)
from squinney.content.files import queries as file_queries
from squinney.content.files.documents import FILE_COLLECTIONS
from squinney.content.leftovers import JOBS, delete_leftovers, give_up_uploads
from squinney.content.nodes import queries as node_queries
from squinney.content.nodes.access import ANYBODY, TRUSTED, Viewer
from squinney.content.nodes.documents import NODE_COLLECTIONS, Access, Node, Revision
from squinney.content.nodes.nodes import Nodes
from squinney.content.photos.photos import Photos
from squinney.content.repair import find_problems, repair
from squinney.errors import SlugTaken
from squinney.patterns.nonces import EditConflict

COLLECTIONS = [*NODE_COLLECTIONS, *FILE_COLLECTIONS, *COMMENT_COLLECTIONS]
QUERIES = [*node_queries.QUERIES, *file_queries.QUERIES, *comment_queries.QUERIES]

__all__ = [
    "ANYBODY",
    "CAPABILITIES",
    "COLLECTIONS",
    "JOBS",
    "QUERIES",
    "TRUSTED",
    "Access",
    "Author",
    "BadMedia",
    "Comment",
    "Comments",
    "DiscussionFull",
    "EditConflict",
    "Moderation",
    "Node",
    "Nodes",
    "NotEmpty",
    "People",
    "Photos",
    "Revision",
    "SlugTaken",
    "StrategyCannot",
    "UnknownComment",
    "UnknownNode",
    "UploadLost",
    "Viewer",
    "delete_leftovers",
    "demo",
    "find_problems",
    "give_up_uploads",
    "repair",
]
