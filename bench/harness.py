"""Interleaved rounds: machines are noisy, so contenders take turns and only ratios within a round count."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Work = Callable[[int], None]  # one operation, told which thread does it


@dataclass
class Contender:
    """Something that does one operation per call; `missing` says why it cannot take part."""

    name: str
    work: Work | None = None
    missing: str = ""


@dataclass
class Round:
    """What one contender did in one round."""

    operations: int
    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds


@dataclass
class Series:
    """All rounds of one contender."""

    name: str
    rounds: list[Round] = field(default_factory=list)
    missing: str = ""

    @property
    def rate(self) -> float:
        """The median round's operations per second."""
        return statistics.median(one.rate for one in self.rounds)

    def percentile(self, share: float) -> float:
        """A latency in milliseconds over all rounds."""
        ordered = sorted(latency for one in self.rounds for latency in one.latencies)
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] * 1000

    def ratio_to(self, other: Series) -> float:
        """How many times the other's rate ours is: the median over rounds."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return statistics.median(mine.rate / theirs.rate for mine, theirs in pairs)


def compare(contenders: Sequence[Contender], *, threads: int, rounds: int, seconds: float) -> list[Series]:
    """Let the contenders take turns; the order turns round with each round, so that none is always first."""
    series = [Series(one.name, missing=one.missing) for one in contenders]
    able = [(one.work, run) for one, run in zip(contenders, series, strict=True) if one.work]
    for work, _ in able:
        _run(work, threads, min(seconds, 0.5))
    for number in range(rounds):
        for work, run in able if number % 2 == 0 else reversed(able):
            run.rounds.append(_run(work, threads, seconds))
    return series


def _run(work: Work, threads: int, seconds: float) -> Round:
    latencies: list[list[float]] = [[] for _ in range(threads)]
    failures: list[BaseException] = []
    until = time.perf_counter() + seconds

    def loop(thread: int) -> None:
        try:
            while (began := time.perf_counter()) < until:
                work(thread)
                latencies[thread].append(time.perf_counter() - began)
        except BaseException as error:
            failures.append(error)

    crew = [threading.Thread(target=loop, args=(number,)) for number in range(threads)]
    began = time.perf_counter()
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    if failures:
        raise failures[0]
    together = [latency for own in latencies for latency in own]
    return Round(len(together), time.perf_counter() - began, together)
