"""A real MongoDB, private to this user and folder."""

from squinney.mongo.embedded.folders import default_folder
from squinney.mongo.embedded.server import Embedded

__all__ = ["Embedded", "default_folder"]
