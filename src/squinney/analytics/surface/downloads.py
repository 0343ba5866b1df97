"""Downloads of series as CSV files."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Response

from squinney.analytics.hits.series import Point


def series_as_csv(points: Sequence[Point], by: str) -> Response:
    """Return a series of hits as a CSV download; its values never need quotes."""
    lines = ["at,hits", *(f"{point.at.isoformat()},{point.hits}" for point in points)]
    headers = {"Content-Disposition": f'attachment; filename="hits-by-{by}.csv"'}
    return Response("\r\n".join(lines) + "\r\n", media_type="text/csv", headers=headers)
