"""The shape of products; `search.py` declares their collection."""

from __future__ import annotations

from typing import Any

Product = dict[str, Any]
