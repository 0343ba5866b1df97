"""The trial of some operations: play schedule after schedule, and let the judge say what is wrong after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from pymongo.read_concern import ReadConcern

from squinney.testing.calls import call, one_line
from squinney.testing.emptying import collection_names
from squinney.testing.explorer.actor import Actor, Arrival, OperationOutcome
from squinney.testing.explorer.choices import Chooser, format_schedule, parse_schedule
from squinney.testing.explorer.judge import MAX_SHOWN, Demands, Judge, is_lost
from squinney.testing.explorer.lock_yields import yielding_locks
from squinney.testing.explorer.operations import LETTERS, Act, Operation
from squinney.testing.explorer.prepared import PreparedDatabase
from squinney.testing.explorer.progress import Progress
from squinney.testing.explorer.recording import Recorder, Recording, shown
from squinney.testing.explorer.results import Explored, NotControlled, Refuted
from squinney.testing.explorer.schedule import Played, Schedule
from squinney.testing.explorer.serial import is_serial
from squinney.transactions import KEYS

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame


@dataclass(frozen=True)
class Disturbances:
    """What may happen to the operations in a schedule: see `Explorer.explore`."""

    crashes: int
    lost_replies: int
    stall_seconds: float
    later: Act
    inside: Sequence[str]


class Trial:
    """Plays schedules of the operations. `compared` is the number of all operations but the `between` ones."""

    def __init__(
        self,
        operations: Sequence[Operation],
        compared: int,
        demands: Demands,
        disturbances: Disturbances,
        database: PreparedDatabase,
        actors: Sequence[Actor],
        arrivals: SimpleQueue[Arrival],
    ) -> None:
        self._operations = operations
        self._compared = compared
        self._disturbances = disturbances
        self._database = database
        self._actors = actors
        self._arrivals = arrivals
        self._progress = Progress(self._name)
        self._judge = Judge(demands, operations, LETTERS[:compared], database, self._progress.note)

    @property
    def schedules(self) -> int:
        """The number of different schedules played."""
        return len(self._progress.played)

    def learn(self) -> None:
        """Run each operation twice, to learn what is random. Do this first."""
        self._judge.learn()

    def explored(self, *, complete: bool) -> Explored:
        """Return the counts. `complete`: there is no schedule that was not played."""
        return self._progress.explored(gave_up=self._judge.gave_up, complete=complete)

    def require_meaningful(self) -> None:
        """Refuse schedules that could not have shown a fault.

        Raises: `AssertionError`, of which `NotControlled` is one.
        """
        self._require_control()
        filled = [name for name, documents in self._database.documents.items() if documents]
        self._progress.require_meaningful(filled)

    def play(self, chooser: Chooser, recorder: Recorder | None = None) -> None:
        """Play the schedule that the chooser decides on.

        Raises: `Refuted` if something is wrong after it; `NotControlled`.
        """
        self._database.restore()
        played = self._played(chooser, recorder)
        self._require_control()
        text = format_schedule(chooser.steps)
        self._progress.add(text, self._actors)
        for actor in self._actors[: self._compared]:
            if not is_lost(actor):
                self._progress.note(actor.letter, actor.outcome)
        if not played.stuck:
            self._abort_all()
        if wrong := self._judge.wrong(played, self._actors, alone=is_serial(chooser.steps)):
            raise Refuted(self._message(wrong, played, text), text)

    def _played(self, chooser: Chooser, recorder: Recorder | None) -> Played:
        db, prepared, disturbances = self._database.db, self._database.prepared, self._disturbances
        schedule = Schedule(
            self._actors,
            self._arrivals,
            chooser,
            crashes=disturbances.crashes,
            lost_replies=disturbances.lost_replies,
            stall_seconds=disturbances.stall_seconds,
            abort=self._abort,
            recover=lambda: call(disturbances.later, db, prepared),
            is_blocked=self._is_blocked,
            recorder=recorder,
        )
        acts = [partial(call, operation.act, prepared=prepared) for operation in self._operations]
        with yielding_locks(db, disturbances.inside):
            return schedule.play(acts, db.name)

    def record(self, schedule: str) -> Recording:
        """Play a schedule once more, with recording on."""
        self._database.restore()
        names = {letter: self._name(letter) for letter in LETTERS[: len(self._operations)]}
        recorder = Recorder(schedule, names, self._all_documents)
        wrong = ""
        try:
            self.play(Chooser(parse_schedule(schedule, "".join(names))), recorder)
        except Refuted as refuted:
            wrong = str(refuted).partition("\nschedule: ")[0]
        return recorder.finished(wrong)

    def _all_documents(self) -> dict[str, str]:
        db = self._database.db
        return shown({name: db[name].find().limit(MAX_SHOWN) for name in collection_names(db) if name != KEYS})

    def _require_control(self) -> None:
        """Refuse operations that send commands past the scheduler: no schedule chose their order."""
        for actor in self._actors:
            actor.wait_for_threads()
            if actor.strays:
                raise NotControlled(f"{self._name(actor.letter)} {actor.strays[0]}")

    def _abort(self, actor: Actor) -> None:
        """End the actor's open transactions. The server would do so a minute after a death."""
        self._database.db.client.admin.command("killSessions", [{"id": lsid["id"]} for lsid in actor.open.values()])

    def _abort_all(self) -> None:
        for actor in self._actors:
            if actor.open:
                self._abort(actor)

    def _is_blocked(self, actor: Actor) -> bool:
        """Return whether the server cannot continue the actor's command. With `inside` that is unknown: assume so."""
        if self._disturbances.inside:
            return True
        blocked = {"appName": actor.name, "$or": [{"writeConflicts": {"$gt": 0}}, {"waitingForLock": True}]}
        admin = self._database.db.client.get_database("admin", read_concern=ReadConcern("local"))
        return any(admin.aggregate([{"$currentOp": {"allUsers": True}}, {"$match": blocked}]))

    def _name(self, letter: str) -> str:
        return f"{letter} {self._operations[LETTERS.index(letter)].name}".rstrip()

    def _message(self, wrong: str, played: Played, text: str) -> str:
        ended = [f"  {self._name(actor.letter)}: {_ended(actor.outcome)}" for actor in self._actors]
        return "\n".join([wrong, *ended, "schedule: " + text, *(f"  {line}" for line in played.trace)])


def _ended(outcome: OperationOutcome) -> str:
    return "died" if outcome.died else one_line(outcome.error) if outcome.error else "done"
