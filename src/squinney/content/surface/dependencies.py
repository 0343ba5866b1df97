"""Content's objects, as its routes and pages ask for them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from squinney.content import Comments, Moderation, Nodes, People, Photos
from squinney.http.dependencies import service

Tree = Annotated[Nodes, Depends(service("content", "nodes", Nodes))]
Albums = Annotated[Photos, Depends(service("content", "photos", Photos))]
Talk = Annotated[Comments, Depends(service("content", "comments", Comments))]
Queue = Annotated[Moderation, Depends(service("content", "moderation", Moderation))]
Persons = Annotated[People, Depends(service("content", "people", People))]
