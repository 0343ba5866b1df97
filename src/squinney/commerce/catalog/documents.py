"""The type of products; `search.py` declares their collection and its indexes."""

from __future__ import annotations

from typing import Any

Product = dict[str, Any]
