"""A sequence diagram: the commands that operations send to MongoDB, in the order in which the server got them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from squinney.pictures.svg import element

Kind = Literal["command", "death", "lost-reply", "event"]
SERVER = "MongoDB"
MARGIN, GAP, TOP, ROW = 92, 250, 44, 34
MAX_TEXT_LENGTH = 33  # what fits between two columns
HEAD = 5


@dataclass(frozen=True)
class Message:
    """One step of a schedule: what an operation sent, the reply, and all documents after it.

    `kind` is a command; a `death` before one; a command whose reply was lost; or an `event` that no operation caused.
    """

    actor: str
    text: str
    reply: str = ""
    kind: Kind = "command"
    documents: Mapping[str, str] = field(default_factory=dict)


def sequence(
    actors: Mapping[str, str], messages: Sequence[Message], *, title: str, shown: int | None = None, wrong: int = -1
) -> str:
    """Draw the first `shown` messages, all by default; those from number `wrong` on are marked as what goes wrong.

    `actors` has a name for each letter that a message's `actor` may be.
    """
    columns = _columns(list(actors))
    height = TOP + ROW * len(messages) + 12
    width = 2 * MARGIN + GAP * (len(columns) - 1)
    drawn = [_life(x, actors.get(name, SERVER), height) for name, x in columns.items()]
    for number, message in enumerate(messages[:shown]):
        y = TOP + ROW * (number + 1) - 8
        marks = [message.kind, *(["wrong"] if 0 <= wrong <= number else []), *(["last"] if number + 1 == shown else [])]
        drawn.append(element("g", _message(message, columns, y, width), of=" ".join(marks)))
    box = f"0 0 {width} {height}"
    return element("svg", *drawn, of="sequence", viewBox=box, role="img", aria_label=title)


def _columns(actors: Sequence[str]) -> dict[str, int]:
    """Return the columns from left to right: the first operation, the server, the other operations."""
    return {name: MARGIN + GAP * number for number, name in enumerate([*actors[:1], SERVER, *actors[1:]])}


def _life(x: int, name: str, height: int) -> str:
    return element("text", escape(name), of="who", x=x, y=22) + element(
        "path", of="life", d=f"M{x} {TOP - 12}V{height}"
    )


def _message(message: Message, columns: Mapping[str, int], y: int, width: int) -> str:
    text = f"{message.text} → {message.reply}" if message.reply else message.text
    if message.actor not in columns:
        return element("text", escape(shortened(text, 80)), x=width // 2, y=y)
    x, server = columns[message.actor], columns[SERVER]
    side = 1 if x < server else -1
    label = element("text", escape(shortened(text)), x=x + side * GAP // 2, y=y - 6)
    if message.kind == "death":
        return label + element("path", of="cross", d="M-6-6 6 6M6-6-6 6", transform=f"translate({x},{y})")
    tip = server - side * 2
    arrow = f"M{x} {y}H{tip}M{tip - side * HEAD} {y - 4}L{tip} {y}L{tip - side * HEAD} {y + 4}"
    lost = element("path", of="cross", d="M-5-5 5 5M5-5-5 5", transform=f"translate({x + side * 14},{y})")
    return (
        element("title", escape(text))
        + label
        + element("path", of="arrow", d=arrow)
        + lost * (message.kind == "lost-reply")
    )


def shortened(text: str, length: int = MAX_TEXT_LENGTH) -> str:
    """Cut a text that does not fit."""
    return text if len(text) <= length else text[: length - 1] + "…"
