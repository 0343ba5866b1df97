"""Lines of text by 32 players, in alternation with Evennia: each side parses commands and delivers events."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import report
from bench.content_peers import _environment
from bench.harness import Round, run_round
from bench.postgres import private_postgres
from squinney.game import World
from squinney.game.surface.listeners import Listener
from squinney.game.surface.live import Live
from squinney.game.surface.terminal import TerminalPlayer
from squinney.mongo.schema import Db

PLAYERS = 32
SCRIPT = ("get lamp", "north", "drop lamp", "get lamp", "south", "drop lamp")
EVENNIA = Path(__file__).parent / "_game_evennia.py"
ASK_SECONDS = 900


class Evennia:
    """A child process that runs one kind of action for a number of seconds, on request."""

    def __init__(self, python: str, folder: Path) -> None:
        command = [python, "-P", "-W", "ignore", str(EVENNIA), str(PLAYERS)]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._child = subprocess.Popen(command, cwd=folder, text=True, **pipes)
        self.version = self._result()["version"]

    def run(self, what: str, seconds: float) -> Any:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{seconds} {what}\n")
        self._child.stdin.flush()
        return self._result()

    def _result(self) -> Any:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError("the Evennia process has ended")

    def close(self) -> None:
        self._child.kill()
        self._child.wait()


@contextmanager
def evennia(database: str) -> Iterator[Evennia | str]:
    """Yield the Evennia process, or the reason why it is missing."""
    packages = {"SQLite": ["evennia"], "PostgreSQL": ["evennia", "psycopg2-binary"]}[database]
    python = _environment("-".join(packages), packages)
    if python is None:
        yield "it cannot be installed here"
        return
    with tempfile.TemporaryDirectory(prefix="sqb-") as folder, private_postgres() as socket:
        if database == "PostgreSQL" and socket is None:
            yield "no PostgreSQL that may run here"
            return
        command = [str(Path(python).parent / "evennia"), "--init", "mygame"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
        game = Path(folder) / "mygame"
        if database == "PostgreSQL":
            _use_postgres(game, socket)
        try:
            side = Evennia(python, game)
        except (RuntimeError, OSError) as error:
            yield str(error)
            return
        try:
            yield side
        finally:
            side.close()


def _use_postgres(game: Path, socket: Path | None) -> None:
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": str(socket)}
    settings = game / "server" / "conf" / "secret_settings.py"
    settings.write_text(settings.read_text() + f"\nDATABASES = {{'default': {database!r}}}\n")


@contextmanager
def delivering(db: Db, characters: dict[str, str]) -> Iterator[list[int]]:
    """Run the site's followers of events and rooms, with a socket queue for each character; yield a message counter."""
    loop, count, live = asyncio.new_event_loop(), [0], Live(db)

    async def drain(listener: Listener) -> None:
        while True:
            await listener.next()
            count[0] += 1

    def run() -> None:
        asyncio.set_event_loop(loop)
        for character_id, location_id in characters.items():
            listener = Listener(character_id, location_id)
            live.add(listener, character_id)
            loop.create_task(drain(listener))
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    live.start(loop)
    try:
        yield count
    finally:
        live.close()
        loop.call_soon_threadsafe(_stop, loop)
        thread.join(timeout=10)


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.call_soon(loop.stop)


def players(world: World) -> tuple[list[Callable[[], str]], dict[str, str]]:
    """Create for each player two rooms, a lamp and a bystander; return the players' lines, and the room of each
    character."""
    turns, rooms = [], {}
    for number in range(PLAYERS):
        hall, yard = f"hall {number}", f"yard {number}"
        world.create_location(hall, name=hall, description="bench", exits={"n": yard})
        world.create_location(yard, name=yard, description="bench", exits={"s": hall})
        world.create_item("lamp", location=hall)
        for name in (f"player {number}", f"bystander {number}"):
            rooms[world.create_character(name, location=hall)["_id"]] = hall
        turns.append(_turns(TerminalPlayer(world, f"player {number}")))
    return turns, rooms


def _turns(player: TerminalPlayer) -> Callable[[], str]:
    calls = [0]

    def act() -> str:
        line = SCRIPT[calls[0] % len(SCRIPT)]
        calls[0] += 1
        return player.run(line)

    return act


def measured(db: Db, *, rounds: int, seconds: float) -> str:
    """Return the part of the page about lines of text."""
    turns, rooms = players(World(db))
    title = f"## Lines of text by {PLAYERS} players at once, and Evennia in the same run\n\n"
    parts = [
        title
        + "Each player takes a lamp, carries it to the next room and back, with the lines "
        + ", ".join(f"`{line}`" for line in SCRIPT)
        + ". Ours is measured at the terminal client's entry point; the site's followers and a socket queue for each "
        "player and bystander run in the same process. Evennia is measured where its portal passes a line to the "
        "server, with a session for each player and bystander. On both sides everybody in the room receives the events."
    ]
    with delivering(db, rooms) as count:
        run_round(lambda thread: turns[thread]() and None, PLAYERS, min(1.0, seconds))
        for database in ("SQLite", "PostgreSQL"):
            with evennia(database) as side:
                if isinstance(side, str):
                    parts.append(f"Evennia on {database} is missing: {side}.")
                else:
                    parts.append(_compared(side, database, turns, count, rounds=rounds, seconds=seconds))
    parts.append(_single_player(turns, seconds))
    return "\n\n".join(parts)


def _compared(
    side: Evennia, database: str, turns: list[Callable[[], str]], count: list[int], *, rounds: int, seconds: float
) -> str:
    ours: list[Round] = []
    theirs, messages = [], [0, 0]
    side.run("commands", min(1.0, seconds))
    for _ in range(rounds):
        before = count[0]
        ours.append(run_round(lambda thread: turns[thread]() and None, PLAYERS, seconds))
        messages[0] += count[0] - before
        theirs.append(side.run("commands", seconds))
        messages[1] += theirs[-1]["messages"]
    ratio = statistics.median(mine.rate / other["rate"] for mine, other in zip(ours, theirs, strict=True))
    latencies = sorted(latency for mine in ours for latency in mine.latencies)
    rows = [
        [
            "ours",
            f"{statistics.median(measured.rate for measured in ours):,.0f}",
            f"{latencies[len(latencies) // 2] * 1000:.1f}",
            f"{messages[0] / len(latencies):.1f}",
            f"{ratio:.1f}x",
        ],
        [
            f"Evennia {side.version} on {database}",
            f"{statistics.median(measured['rate'] for measured in theirs):,.0f}",
            f"{statistics.median(measured['p50'] for measured in theirs):.1f}",
            f"{messages[1] / sum(measured['count'] for measured in theirs):.1f}",
            "1.0x",
        ],
    ]
    bare = [(what, side.run(what, seconds)) for what in ("move", "pick up, drop")]
    calls = "; ".join(
        f"{what} {measured['rate']:,.0f} per second, p50 {measured['p50']:.2f} ms" for what, measured in bare
    )
    return (
        report.table(["world", "lines/s of all players", "p50 ms", "messages per line", "rate"], rows)
        + "\n\nEvennia's own `move_to`, which no player can call (quiet, without a command and without messages): "
        + f"{calls}."
    )


def _single_player(turns: list[Callable[[], str]], seconds: float) -> str:
    measured = run_round(lambda thread: turns[0]() and None, 1, seconds)
    median = sorted(measured.latencies)[len(measured.latencies) // 2] * 1000
    return f"A single player: {measured.rate:,.0f} lines per second, p50 {median:.1f} ms."
