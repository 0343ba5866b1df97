"""The HTML report of a failure: the pictures of a `Refuted` or a `NotCrashSafe`, in one file that needs no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import count
from pathlib import Path

from squinney.pictures.sequence import Message, sequence
from squinney.pictures.svg import STATIC, STYLES, element
from squinney.pictures.timeline import Bar, Row, timeline
from squinney.testing.crash.sweep import CrashPoint, NotCrashSafe
from squinney.testing.explorer.anomalies import DOUBLE_APPLY, LOST_WRITE
from squinney.testing.explorer.recording import Recording
from squinney.testing.explorer.results import Refuted

MAX_NAME_LENGTH = 120
WRITE_LENGTH = 0.8  # of a bar; the rest of 1 is the time until the next write


def write_report(folder: Path, test: str, error: NotCrashSafe | Refuted) -> Path:
    """Write a file about the error that this test met; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "-", test)[-MAX_NAME_LENGTH:].strip("-")
    for number in count(1):
        path = folder / (f"{name}.html" if number == 1 else f"{name}-{number}.html")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(report(test, error))
            return path
        except FileExistsError:
            continue
    raise AssertionError


def report(test: str, error: NotCrashSafe | Refuted) -> str:
    """Return the report as HTML."""
    if isinstance(error, NotCrashSafe):
        title, parts = anomaly_of(error.points), _crashes(error)
    else:
        title, parts = _anomaly(error), _schedule(error)
    head = element("h1", element("span", escape(title), of="anomaly") if title else "Refuted")
    body = [head, element("p", escape(test), of="quiet"), *parts]
    message = element("section", element("pre", escape(str(error))), of="panel")
    style = (STATIC / "report.css").read_text("utf-8") + STYLES.read_text("utf-8")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title or 'Refuted')}: {escape(test)}</title><style>{style}</style><body>"
        + "".join(body)
        + element("h2", "The message")
        + message
        + "</body></html>\n"
    )


# ---- a schedule of the explorer ----


def _anomaly(error: Refuted) -> str:
    return error.recording.anomaly if error.recording else ""


def _schedule(error: Refuted) -> list[str]:
    recording = error.recording
    if recording is None:
        return []
    picture = sequence(
        recording.actors,
        recording.messages,
        title=f"Schedule {recording.schedule}",
        wrong=recording.first_wrong,
    )
    played = f'To play it again: <code>replay="{escape(recording.schedule)}"</code>'
    return [
        element("section", picture, of="panel"),
        element("p", played, of="quiet"),
        element("h2", "The documents after each command"),
        element("section", _documents(recording), of="panel"),
    ]


def _documents(recording: Recording) -> str:
    names = sorted({name for message in recording.messages for name in message.documents} | set(recording.before))
    cells = ["", "before", *(escape(recording.before.get(name, "")) for name in names)]
    rows = [element("tr", *(element("td", cell) for cell in cells))]
    before = recording.before
    for number, message in enumerate(recording.messages):
        rows.append(_row(number, message, before, names, is_wrong=0 <= recording.first_wrong <= number))
        before = dict(message.documents)
    heads = ["", "command", *map(escape, names)]
    return element("table", element("tr", *(element("th", head) for head in heads)), *rows)


def _row(number: int, message: Message, before: dict[str, str], names: Sequence[str], *, is_wrong: bool) -> str:
    reply = f" → {message.reply}" if message.reply else ""
    lost = " (its reply is lost)" if message.kind == "lost-reply" else ""
    command = f"{message.actor} {message.text}{reply}{lost}".strip()
    cells = [element("td", str(number + 1)), element("td", escape(command))]
    for name in names:
        now = message.documents.get(name, "")
        cells.append(element("td", escape(now), of="changed" if now != before.get(name, "") else None))
    return element("tr", *cells, of="wrong" if is_wrong else None)


# ---- a crash sweep ----


def anomaly_of(points: Sequence[CrashPoint]) -> str:
    """Name what the crash points leave.

    Where only an operation that goes on after a lost reply does harm, it did the same write twice.
    """
    deaths = {point.write for point in points if point.way != "reconnected"}
    return LOST_WRITE if deaths else DOUBLE_APPLY


def _crashes(error: NotCrashSafe) -> list[str]:
    end = max(point.write for point in error.points) + 1
    rows = [Row(str(point), _bars(point)) for point in error.points]
    picture = timeline(rows, title="Crash points", begin=0, end=end)
    told = f"{len(error.points)} of {error.tried} crash points leave something wrong. A bar is a write."
    return [element("section", picture, of="panel"), element("p", told, of="quiet")]


def _bars(point: CrashPoint) -> list[Bar]:
    done = [Bar(number, number + WRITE_LENGTH, "done") for number in range(point.write - 1)]
    began = point.write - 1
    if point.way == "before":
        return [*done, Bar(began, began + 0.1, "cut")]
    if point.way == "reconnected":
        return [*done, Bar(began, began + WRITE_LENGTH, "refused")]
    return [*done, Bar(began, began + WRITE_LENGTH, "done"), Bar(began + WRITE_LENGTH, began + 0.9, "cut")]
