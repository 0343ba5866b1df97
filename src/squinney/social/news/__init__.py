"""The lists that members read: news, walls, incoming posts and notices; their delivery and their removal."""

from __future__ import annotations
