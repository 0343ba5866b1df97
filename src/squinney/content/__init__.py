"""Systems 9 and 10: pages, blog entries and photos, and the comments on them."""

from squinney.content.building import build
from squinney.content.comments.comments import Comments
from squinney.content.comments.discussions import CAPABILITIES
from squinney.content.comments.moderation import Moderation
from squinney.content.comments.people import People
from squinney.content.demo import demo
from squinney.content.documents import COLLECTIONS, Access, Author, Comment, Node, Revision
from squinney.content.errors import (
    BadMedia,
    DiscussionFull,
    NotEmpty,
    SlugTaken,
    StrategyCannot,
    UnknownComment,
    UnknownNode,
    UploadLost,
)
from squinney.content.figures import figures
from squinney.content.files.photos import Photos
from squinney.content.nodes.access import ANYBODY, TRUSTED, Viewer
from squinney.content.nodes.nodes import Nodes
from squinney.content.queries import QUERIES
from squinney.content.repair import find_problems, repair
from squinney.content.sweep import JOBS, sweep_removals, sweep_uploads
from squinney.patterns.nonces import EditConflict

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
    "build",
    "demo",
    "figures",
    "find_problems",
    "repair",
    "sweep_removals",
    "sweep_uploads",
]
