"""Plays one schedule: holds everybody, and lets them go on one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from squinney.mongo.schema import Db
from squinney.testing.explorer.actor import Actor, Arrival, Status, real_sleep
from squinney.testing.explorer.choices import Chooser

PATIENCE_SECONDS = 0.02  # who does not come to the next command in that time may be waiting for somebody
SLOW_SECONDS = 10.0  # ... and in that time certainly is, whatever the server says; else the machine is slow
STUCK_SECONDS = 20.0
MOST_SLEEPS = 30  # of all together, while nobody comes to an end
MOST_SLEEPS_AFTER_DEATH = 6  # before time passes and `recover` runs
MOST_STEPS = 5_000  # of all together: who goes on for longer never ends
SHOWN_STEPS = 20  # of a schedule that does not end, at both ends
MOST_STEPS_ALONE = 60  # without a sleep: who sends so many while others are held may wait for them in a loop


@dataclass
class Played:
    """How a schedule went."""

    trace: list[str] = field(default_factory=list)
    began: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    stalled: bool = False
    stuck: str = ""


class Schedule:
    """One run of all operations under a chooser."""

    def __init__(
        self,
        actors: Sequence[Actor],
        arrivals: SimpleQueue[Arrival],
        chooser: Chooser,
        *,
        crashes: int,
        stall_seconds: float = 0,
        forget: Callable[[Actor], object],
        pass_time: Callable[[Actor], object],
        recover: Callable[[], object],
        waits: Callable[[Actor], bool],
    ) -> None:
        self._actors = actors
        self._arrivals = arrivals
        self._chooser = chooser
        self._crashes = crashes
        self._stall_seconds = stall_seconds
        self._forget = forget
        self._pass_time = pass_time
        self._recover = recover
        self._waits = waits
        self._on: Actor | None = None
        self._alone = 0
        self._asleep: set[Actor] = set()  # and nobody else has gone on since
        self._sleeps = 0
        self._stalled: set[Actor] = set()
        self._recoveries = 0
        self.played = Played()

    def play(self, operations: Sequence[Callable[[Db], object]], database: str) -> Played:
        """From the first command to the last, or to where nobody can go on."""
        for actor, operation in zip(self._actors, operations, strict=True):
            actor.begin(operation, database)
            self._await(actor)
        while not self.played.stuck and self._step():
            pass
        if self.played.stuck:
            self._end_all()
        return self.played

    def _step(self) -> bool:
        options = self._options()
        if not options:
            return self._await_anybody()
        if len(self._chooser.steps) >= MOST_STEPS:
            self._never_ends()
            return False
        chosen = self._chooser.choose(options)
        if chosen == ".":
            self._stall()
            return True
        actor = next(actor for actor in self._actors if actor.letter == chosen[0])
        self.played.trace.append(f"{chosen:3}{actor.next if chosen[-1] != '~' else 'the server forgets it'}")
        if chosen.endswith("!"):
            self._kill(actor)
        elif chosen.endswith("~"):
            self._forget_dead(actor)
        else:
            self._let_go_on(actor)
        return True

    # ---- what can be done ----

    def _options(self) -> list[str]:
        """First what needs no turn: the one who is on goes on, then the next one, those who sleep last."""
        held = [actor for actor in self._actors if actor.status == "held"]
        ready = [actor for actor in held if actor not in self._asleep]
        forgettable = [f"{actor.letter}~" for actor in self._actors if actor.dead and actor.open]
        if self._alone >= MOST_STEPS_ALONE:
            ready = [actor for actor in ready if actor is not self._on] or ready
        if not ready and not forgettable:
            ready = held
        ready.sort(key=lambda actor: (actor in self._stalled, actor is not self._on, actor.asleep))
        goes_on = [actor.letter for actor in ready]
        dies = [f"{actor.letter}!" for actor in ready if self._crashes and not actor.asleep]
        under_way = any(actor.letter in self.played.began for actor in held)
        stall = ["."] if self._stall_seconds and under_way else []
        return [*goes_on, *dies, *forgettable, *stall]

    def _help_sleepers(self, may_recover: bool) -> None:
        """They have looked again and again: only time and `recover` can help them now."""
        self._sleeps = 0
        if may_recover:
            self._recoveries += 1
            self.played.trace.append("   time passes: the server forgets the dead, recover")
            for actor in self._actors:
                self._forget_dead(actor)
            self._recover()
        else:
            self._stuck([actor for actor in self._actors if actor.status == "held"])

    def _stuck(self, actors: Sequence[Actor]) -> None:
        self.played.stuck = "waits for ever: " + ", ".join(f"{actor.letter} ({actor.next})" for actor in actors)

    def _never_ends(self) -> None:
        under_way = ", ".join(f"{actor.letter} ({actor.next})" for actor in self._actors if actor.status == "held")
        self.played.stuck = f"does not end in {MOST_STEPS} commands: {under_way}"
        self.played.trace[SHOWN_STEPS:-SHOWN_STEPS] = ["..."]

    # ---- doing it ----

    def _let_go_on(self, actor: Actor) -> None:
        self._alone = self._alone + 1 if actor is self._on else 0
        self._on = actor
        self.played.began.setdefault(actor.letter, len(self._chooser.steps))
        self._asleep = {actor} & self._asleep if not actor.asleep else self._asleep - {actor}
        actor.go_on()
        self._await(actor)

    def _stall(self) -> None:
        """Time passes for all who are under way; those who have not begun go first then."""
        self.played.trace.append(".  time passes")
        real_sleep(self._stall_seconds)
        self._stall_seconds = 0
        self.played.stalled = True
        self._stalled = {actor for actor in self._actors if actor.letter in self.played.began}

    def _forget_dead(self, actor: Actor) -> None:
        if actor.dead and actor.open:
            self._forget(actor)
            actor.open.clear()

    def _kill(self, actor: Actor) -> None:
        self._crashes -= 1
        self.played.began.setdefault(actor.letter, len(self._chooser.steps))
        actor.die()
        self._await(actor)
        self._pass_time(actor)

    def _await(self, actor: Actor) -> None:
        """Until it is held again or done, or waits for another: the server knows whose write is in its way."""
        since = time.monotonic()
        while actor.status == "running":
            try:
                self._arrived(*self._arrivals.get(timeout=PATIENCE_SECONDS))
            except Empty:
                if time.monotonic() - since > SLOW_SECONDS or (actor.in_flight and self._waits(actor)):
                    actor.status = "waiting"

    def _arrived(self, actor: Actor, status: Status) -> None:
        actor.status = status
        if status == "done":
            self.played.ended.setdefault(actor.letter, len(self._chooser.steps))
            self._sleeps = 0
            self._asleep.clear()
        elif actor.asleep:
            self._sleeps += 1
            self._asleep.add(actor)
            may_recover = self._recoveries < 2 and any(actor.dead for actor in self._actors)
            most = MOST_SLEEPS_AFTER_DEATH if may_recover else MOST_SLEEPS
            if self._sleeps > most and not self._waiting_came_on():
                self._help_sleepers(may_recover)

    def _waiting_came_on(self) -> bool:
        """Sleepers here look again at once, and so may keep the server busy with themselves: let it answer others."""
        if all(actor.status != "waiting" for actor in self._actors):
            return False
        self._sleeps = 0
        try:
            self._arrived(*self._arrivals.get(timeout=STUCK_SECONDS))
        except Empty:
            return False
        return True

    def _await_anybody(self) -> bool:
        """Nobody is held: those who wait come back when the server lets them, or everybody is done."""
        waiting = [actor for actor in self._actors if actor.status == "waiting"]
        if not waiting:
            return False
        try:
            self._arrived(*self._arrivals.get(timeout=STUCK_SECONDS))
        except Empty:
            self._stuck(waiting)
        return True

    def _end_all(self) -> None:
        """Those that are stuck die, so that their threads can do the next schedule."""
        for actor in self._actors:
            if actor.status == "held":
                actor.die()
                self._await(actor)
        for actor in self._actors:
            actor.dead = actor.dead or actor.status == "waiting"
            self._forget_dead(actor)
        until = time.monotonic() + 60
        while any(actor.status != "done" for actor in self._actors) and time.monotonic() < until:
            try:
                self._arrived(*self._arrivals.get(timeout=1))
            except Empty:
                continue
