"""Play one schedule: hold all operations, and let one at a time continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from squinney.testing.explorer.actor import Actor, Arrival, Run, Status
from squinney.testing.explorer.choices import Chooser
from squinney.testing.explorer.recording import Recorder
from squinney.testing.explorer.separate_processes import real_sleep

PATIENCE_SECONDS = 0.02  # after this time without a next command, the operation may be waiting for another one
SLOW_SECONDS = 10.0  # after this time it counts as waiting, whatever the server reports
STUCK_SECONDS = 20.0
MAX_SLEEPS = 30  # of all operations together, while none of them ends
MAX_SLEEPS_BEFORE_RECOVERY = 6  # before time passes and `recover` runs
MAX_STEPS = 5_000  # of all operations together, before the schedule counts as endless
SHOWN_STEPS = 20  # at each end of the trace of an endless schedule
MAX_STEPS_ALONE = 60  # of one operation in a row without a sleep: it may wait in a loop for one that is held


@dataclass
class Played:
    """What happened in a schedule. `began` and `ended` give the step of each operation's first and last command."""

    trace: list[str] = field(default_factory=list)
    began: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    stalled: bool = False
    stuck: str = ""


class Schedule:
    """One run of all operations. A chooser decides which operation continues."""

    def __init__(
        self,
        actors: Sequence[Actor],
        arrivals: SimpleQueue[Arrival],
        chooser: Chooser,
        *,
        crashes: int,
        lost_replies: int,
        stall_seconds: float = 0,
        abort: Callable[[Actor], object],
        recover: Callable[[], object],
        is_blocked: Callable[[Actor], bool],
        recorder: Recorder | None = None,
    ) -> None:
        """`abort` ends an actor's open transactions; `is_blocked` asks the server."""
        self._recorder = recorder
        self._actors = actors
        self._arrivals = arrivals
        self._chooser = chooser
        self._crashes = crashes
        self._lost_replies = lost_replies
        self._stall_seconds = stall_seconds
        self._abort = abort
        self._recover = recover
        self._is_blocked = is_blocked
        self._current: Actor | None = None
        self._steps_alone = 0
        self._asleep: set[Actor] = set()  # asleep, and no other actor has continued since
        self._resumed: dict[Actor, int] = {}  # by actor, the step at which it continued last
        self._sleeps = 0
        self._stalled: set[Actor] = set()
        self._recoveries = 0
        self.played = Played()

    def play(self, operations: Sequence[Run], database: str) -> Played:
        """Run the operations from the first command to the last, or until none of them can continue."""
        for actor, operation in zip(self._actors, operations, strict=True):
            actor.start(operation, database)
            self._await(actor)
        while not self.played.stuck and self._step():
            pass
        if self.played.stuck:
            self._end_all()
        return self.played

    def _step(self) -> bool:
        options = self._options()
        if not options:
            return self._await_any()
        if len(self._chooser.steps) >= MAX_STEPS:
            self._never_ends()
            return False
        chosen = self._chooser.choose(options)
        if chosen == ".":
            self._stall()
            self._record(chosen, None, "time passes", None)
            return True
        actor = next(actor for actor in self._actors if actor.letter == chosen[0])
        what = "the server aborts its transactions" if chosen.endswith("~") else actor.next
        what += ", and its reply is lost" if chosen.endswith("?") else ""
        self.played.trace.append(f"{chosen:3}{what}")
        sent = actor.sent
        if chosen.endswith("!"):
            self._kill(actor)
        elif chosen.endswith("~"):
            self._abort_left(actor)
        else:
            self._resume(actor, loses_reply=chosen.endswith("?"))
        self._record(chosen, actor, what, sent)
        return True

    def _record(self, chosen: str, actor: Actor | None, what: str, sent: tuple[str, Mapping[str, Any]] | None) -> None:
        if self._recorder:
            self._recorder.step(chosen, actor, what, sent)

    # ---- what can happen next ----

    def _options(self) -> list[str]:
        """Return the possible steps. The first is no switch: the current actor continues, sleeping ones come last."""
        held = [actor for actor in self._actors if actor.status == "held"]
        ready = [actor for actor in held if actor not in self._asleep]
        aborts = [f"{actor.letter}~" for actor in self._actors if actor.gone and actor.open]
        if self._steps_alone >= MAX_STEPS_ALONE:
            ready = [actor for actor in ready if actor is not self._current] or ready
        if not ready and not aborts:
            ready = held
        ready.sort(key=self._rank)
        resumes = [actor.letter for actor in ready]
        deaths = [f"{actor.letter}!" for actor in ready if self._crashes and not actor.asleep]
        # guard: an operation goes on after a lost reply
        losses = [f"{actor.letter}?" for actor in ready if self._lost_replies and actor.writes_next]
        begun = any(actor.letter in self.played.began for actor in held)
        stall = ["."] if self._stall_seconds and begun else []
        return [*resumes, *deaths, *losses, *aborts, *stall]

    def _rank(self, actor: Actor) -> tuple[bool, bool, bool, int]:
        """Rank sleeping actors by how long they sleep, or two that wake each other would keep a third one waiting."""
        slept_since = self._resumed.get(actor, 0) if actor.asleep else 0
        return actor in self._stalled, actor is not self._current, actor.asleep, slept_since

    def _help_sleepers(self, may_recover: bool) -> None:
        """Help actors that have polled many times in vain: only time and `recover` can end their wait."""
        self._sleeps = 0
        if may_recover:
            self._recoveries += 1
            self.played.trace.append("   time passes: the server aborts transactions that were left open; `later` runs")
            for actor in self._actors:
                self._abort_left(actor)
            self._recover()
        else:
            self._stuck([actor for actor in self._actors if actor.status == "held"])

    def _stuck(self, actors: Sequence[Actor]) -> None:
        self.played.stuck = f"waits forever: {_positions(actors)}"

    def _never_ends(self) -> None:
        held = [actor for actor in self._actors if actor.status == "held"]
        self.played.stuck = f"does not end in {MAX_STEPS} commands: {_positions(held)}"
        self.played.trace[SHOWN_STEPS:-SHOWN_STEPS] = ["..."]

    # ---- making it happen ----

    def _resume(self, actor: Actor, *, loses_reply: bool) -> None:
        self._steps_alone = self._steps_alone + 1 if actor is self._current else 0
        self._current = actor
        self._resumed[actor] = len(self._chooser.steps)
        self.played.began.setdefault(actor.letter, len(self._chooser.steps))
        self._asleep = {actor} & self._asleep if not actor.asleep else self._asleep - {actor}
        if loses_reply:
            self._lost_replies -= 1
            actor.resume_without_reply()
        else:
            actor.resume()
        self._await(actor)

    def _stall(self) -> None:
        """Let time pass for all operations that have begun. Those that have not begun continue first afterwards."""
        self.played.trace.append(".  time passes")
        real_sleep(self._stall_seconds)
        self._stall_seconds = 0
        self.played.stalled = True
        self._stalled = {actor for actor in self._actors if actor.letter in self.played.began}

    def _abort_left(self, actor: Actor) -> None:
        if actor.gone and actor.open:
            self._abort(actor)
            actor.open.clear()

    def _kill(self, actor: Actor) -> None:
        self._crashes -= 1
        self.played.began.setdefault(actor.letter, len(self._chooser.steps))
        actor.kill()
        self._await(actor)

    def _await(self, actor: Actor) -> None:
        """Wait until the actor is held again or done, or until the server says that another write blocks it."""
        since = time.monotonic()
        while actor.status == "running":
            try:
                self._arrived(*self._arrivals.get(timeout=PATIENCE_SECONDS))
            except Empty:
                if time.monotonic() - since > SLOW_SECONDS or (actor.in_flight and self._is_blocked(actor)):
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
            may_recover = self._recoveries < 2 and any(actor.gone for actor in self._actors)
            most = MAX_SLEEPS_BEFORE_RECOVERY if may_recover else MAX_SLEEPS
            if self._sleeps > most and not self._waiting_actor_arrived():
                self._help_sleepers(may_recover)

    def _waiting_actor_arrived(self) -> bool:
        """Give a waiting actor time to arrive. Sleeping actors poll without a pause and may keep the server busy."""
        if all(actor.status != "waiting" for actor in self._actors):
            return False
        self._sleeps = 0
        try:
            self._arrived(*self._arrivals.get(timeout=STUCK_SECONDS))
        except Empty:
            return False
        return True

    def _await_any(self) -> bool:
        """Wait for a waiting actor, since none is held. Return False when all actors are done."""
        waiting = [actor for actor in self._actors if actor.status == "waiting"]
        if not waiting:
            return False
        try:
            self._arrived(*self._arrivals.get(timeout=STUCK_SECONDS))
        except Empty:
            self._stuck(waiting)
        return True

    def _end_all(self) -> None:
        """Kill the stuck operations, so that their threads can run the next schedule."""
        for actor in self._actors:
            if actor.status == "held":
                actor.kill()
                self._await(actor)
        for actor in self._actors:
            actor.dead = actor.dead or actor.status == "waiting"
            self._abort_left(actor)
        until = time.monotonic() + 60
        while any(actor.status != "done" for actor in self._actors) and time.monotonic() < until:
            try:
                self._arrived(*self._arrivals.get(timeout=1))
            except Empty:
                continue


def _positions(actors: Sequence[Actor]) -> str:
    return ", ".join(f"{actor.letter} ({actor.next})" for actor in actors)
