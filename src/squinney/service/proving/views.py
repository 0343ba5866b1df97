"""What the pages of a proof show: the pictures and the words for each lane."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

from markupsafe import Markup

from squinney.patterns import money
from squinney.pictures.levels import level_chart
from squinney.pictures.timeline import Row, timeline
from squinney.service.proving import lanes
from squinney.service.proving.progress import LaneProgress, Progress
from squinney.service.proving.subjects import TRANSFERS, Stage
from squinney.service.proving.transfers import guarded_transfer, plain_transfer

SHOWN_SECONDS = 8.0  # of a running proof in its timeline
CURRENCY = "EUR"
MIN_DEPTH = lanes.TOTAL // 25  # of the chart: less than that must not look like everything
SOURCES = {"by-hand": plain_transfer, "guarded-steps": guarded_transfer}
HELD, BROKEN, OPEN, UNTRIED = "held", "broken", "open", "untried"


@dataclass(frozen=True)
class Light:
    """A promise: held, broken (with how), open (it is checked at the end), or untried (no worker has written yet)."""

    promise: str
    state: str
    how: str = ""


@dataclass(frozen=True)
class StageView:
    """One stage: what to watch, whether it is `next`, `now` or `over`, and how much of it has passed."""

    name: str
    watch: str
    state: str
    percent: int


@dataclass(frozen=True)
class LaneView:
    """One lane, ready for a template."""

    name: str
    title: str
    source: str
    level: str
    total: str
    lost: str
    is_whole: bool
    is_tried: bool
    operations: int
    refused: int
    kills: int
    chart: Markup
    timeline: Markup
    lights: Sequence[Light]


@dataclass(frozen=True)
class ProofView:
    """A whole proof, ready for a template."""

    state: str
    lanes: Sequence[LaneView]
    stages: Sequence[StageView] = ()
    stage: int = 0
    seconds: float = 0
    total_seconds: float = 0
    watch: str = ""
    message: str = ""
    verdict: str = ""
    subject: str = TRANSFERS.name
    title: str = TRANSFERS.title
    is_good: bool = field(default=False)

    @property
    def is_running(self) -> bool:
        """Whether the proof is in progress."""
        return self.state in ("starting", "running", "checking")


def shown(progress: Progress | None, stages: Sequence[Stage], seconds: float) -> ProofView:
    """Return what the pages show of a proof; of none, the two transfers before anything has happened."""
    if progress is None:
        progress = Progress(TRANSFERS.name, TRANSFERS.title, [], seconds)
        state = "idle"
    else:
        state = str(progress.state)
    lanes = progress.lanes
    if not lanes and progress.subject == TRANSFERS.name:
        lanes = [LaneProgress(lane.name, lane.title, lane.total) for lane in TRANSFERS.lanes]
    depth = max([MIN_DEPTH, *(abs(lane.total - level) for lane in lanes for _, level in lane.levels)])
    current = stages[min(progress.stage, len(stages) - 1)]
    starts = [sum(stage.share for stage in stages[:number]) for number in range(len(stages))]
    return ProofView(
        state,
        [_lane(lane, progress, depth, starts[1:]) for lane in lanes],
        [_stage(stage, start, progress) for stage, start in zip(stages, starts, strict=True)],
        progress.stage,
        progress.seconds,
        progress.total_seconds,
        current.watch if state == "running" else "",
        progress.message,
        _verdict(lanes) if state == "done" else "",
        progress.subject,
        progress.title,
        state == "done" and not any(lanes[-1].verdict.values()),
    )


def _stage(stage: Stage, start: float, progress: Progress) -> StageView:
    passed = (progress.seconds / progress.total_seconds - start) / stage.share if progress.total_seconds else 0
    percent = 100 if progress.state in ("checking", "done") else round(100 * min(1, max(0, passed)))
    state = "over" if percent == 100 else "now" if percent else "next"
    return StageView(stage.name, stage.watch, state, percent)


def _lane(lane: LaneProgress, progress: Progress, depth: int, marks: Sequence[float]) -> LaneView:
    lost = lane.total - lane.level
    amount = f"{abs(lost) / 100:,.2f}"
    chart = level_chart(
        lane.levels or [(0, lane.total)],
        base=lane.total,
        depth=depth,
        seconds=progress.total_seconds,
        kills=lane.kills,
        marks=marks,
        title=f"{lane.title}: the sum of all balances over time",
    )
    return LaneView(
        lane.name,
        lane.title,
        _body(SOURCES[lane.name]) if lane.name in SOURCES else "",
        money.formatted(lane.level, CURRENCY) if lane.total else "",
        f"{lane.total / 100:,.2f}" if lane.total else "",
        "0.00 lost" if not lost else f"{amount} {'lost' if lost > 0 else 'created'}",
        not lost,
        bool(lane.levels),
        lane.operations,
        lane.refused,
        len(lane.kills),
        Markup(chart),  # noqa: S704 - the pictures escape their texts
        _timeline(lane, progress),
        _lights(lane),
    )


@cache
def _body(function: Callable[..., object]) -> str:
    """Return the lines of a function below its docstring."""
    _, _, body = inspect.getsource(function).partition(f'"""{function.__doc__}"""\n')
    return textwrap.dedent(body).rstrip()


def _timeline(lane: LaneProgress, progress: Progress) -> Markup:
    """Draw the last seconds of a running proof, and all of one that is over."""
    end = progress.total_seconds if progress.is_over else max(progress.seconds, SHOWN_SECONDS)
    begin = 0.0 if progress.is_over else end - SHOWN_SECONDS
    rows = [Row(f"worker {number}", bars) for number, bars in enumerate(lane.rows, 1)]
    return Markup(timeline(rows, title=lane.title, begin=begin, end=end))  # noqa: S704


def _lights(lane: LaneProgress) -> list[Light]:
    if lane.verdict:
        return [Light(promise, BROKEN if how else HELD, how) for promise, how in lane.verdict.items()]
    if lane.levels:
        promises = lanes.promises(lane.level, lane.lowest)
        return [Light(promise, BROKEN if how else HELD, how) for promise, how in promises.items()]
    if lane.total:
        return [Light(promise, UNTRIED) for promise in lanes.promises(lane.total, lane.total)]
    return [Light("every promise of this system is checked at the end", OPEN)]


def _verdict(lanes: Sequence[LaneProgress]) -> str:
    """Say in one sentence for each lane what was seen."""
    return " ".join(f"{lane.title}: {_outcome(lane)}." for lane in lanes)


def _outcome(lane: LaneProgress) -> str:
    broken = [how for promise, how in lane.verdict.items() if how]
    kept = "both promises hold" if len(lane.verdict) == 2 else f"all {len(lane.verdict)} promises hold"
    outcome = ", ".join(broken) if broken else kept
    return f"{outcome}, after {len(lane.kills)} kills in {lane.operations:,} operations"
