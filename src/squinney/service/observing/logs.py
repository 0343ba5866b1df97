"""Log formats: text or JSON lines, each with the id of its request."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

request_id: ContextVar[str] = ContextVar("request_id", default="")


class Human(logging.Formatter):
    """Formats a record as one line of text."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        line = f"{_time_of_day(int(record.created))} {record.levelname.lower():7} {record.getMessage()}"
        if "ms" in fields:
            line += f" {fields['ms']} ms"
        if request_id.get():
            line += f" [{request_id.get()}]"
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


def _time_of_day(at: int) -> str:
    """Format a time in UTC; `strftime` would take as long as the rest of the line."""
    return f"{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}"


class Json(logging.Formatter):
    """Formats a record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({"request_id": request_id.get()} if request_id.get() else {}),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up(log_format: Literal["human", "json"], level: str = "info") -> None:
    """Send all log lines of this process from this level on to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(Json() if log_format == "json" else Human())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # not in our formats
    # The driver's debug lines can contain documents, so they stay off at every level.
    logging.getLogger("pymongo").setLevel(logging.WARNING)
