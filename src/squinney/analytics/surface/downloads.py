"""Numbers as a file."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Response

from squinney.analytics.hits.series import Point


def series_as_csv(points: Sequence[Point], by: str) -> Response:
    """A series of hits as CSV; neither column can hold what would need quotes."""
    lines = ["at,hits", *(f"{point.at.isoformat()},{point.hits}" for point in points)]
    headers = {"Content-Disposition": f'attachment; filename="hits-by-{by}.csv"'}
    return Response("\r\n".join(lines) + "\r\n", media_type="text/csv", headers=headers)
