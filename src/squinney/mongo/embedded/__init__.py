"""An embedded MongoDB: a real `mongod`, private to one user and one data folder."""

from squinney.mongo.embedded.folders import default_folder
from squinney.mongo.embedded.server import Embedded

__all__ = ["Embedded", "default_folder"]
