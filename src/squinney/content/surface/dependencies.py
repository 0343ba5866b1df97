"""Content's services, as dependencies of routes and pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from squinney.content import Comments, Moderation, Nodes, People, Photos
from squinney.http.dependencies import service

NodesDep = Annotated[Nodes, Depends(service("content", "nodes", Nodes))]
PhotosDep = Annotated[Photos, Depends(service("content", "photos", Photos))]
CommentsDep = Annotated[Comments, Depends(service("content", "comments", Comments))]
ModerationDep = Annotated[Moderation, Depends(service("content", "moderation", Moderation))]
PeopleDep = Annotated[People, Depends(service("content", "people", People))]
