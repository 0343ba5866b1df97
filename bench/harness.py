"""Interleaved rounds: machines are noisy, so contenders take turns, and only ratios within a round are compared."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Work = Callable[[int], None]  # one operation; the argument is the number of the thread that runs it


@dataclass
class Contender:
    """A named function that runs one operation per call; `missing` is the reason if it cannot take part."""

    name: str
    work: Work | None = None
    missing: str = ""


@dataclass
class Round:
    """The results of one contender in one round."""

    operations: int
    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds


@dataclass
class Series:
    """The results of one contender in all rounds."""

    name: str
    rounds: list[Round] = field(default_factory=list)
    missing: str = ""

    @property
    def rate(self) -> float:
        """The median of the rounds' operations per second."""
        return statistics.median(turn.rate for turn in self.rounds)

    def percentile(self, share: float) -> float:
        """Return a percentile of the latencies of all rounds, in milliseconds; `share` is 0.5 for the median."""
        ordered = sorted(latency for turn in self.rounds for latency in turn.latencies)
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] * 1000

    def ratio_to(self, other: Series) -> float:
        """Return the median over the rounds of this contender's rate divided by the other's."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return statistics.median(mine.rate / theirs.rate for mine, theirs in pairs)


def compare(contenders: Sequence[Contender], *, threads: int, rounds: int, seconds: float) -> list[Series]:
    """Let the contenders take turns; the order is reversed after each round, so that none is always first."""
    series = [Series(contender.name, missing=contender.missing) for contender in contenders]
    present = [(contender.work, run) for contender, run in zip(contenders, series, strict=True) if contender.work]
    for work, _ in present:
        run_round(work, threads, min(seconds, 0.5))
    for number in range(rounds):
        for work, run in present if number % 2 == 0 else reversed(present):
            run.rounds.append(run_round(work, threads, seconds))
    return series


def run_round(work: Work, threads: int, seconds: float) -> Round:
    """Call `work` in each of the threads for some seconds."""
    latencies: list[list[float]] = [[] for _ in range(threads)]
    failures: list[BaseException] = []
    until = time.perf_counter() + seconds

    def loop(thread: int) -> None:
        try:
            while (started := time.perf_counter()) < until:
                work(thread)
                latencies[thread].append(time.perf_counter() - started)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=loop, args=(number,)) for number in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    all_latencies = [latency for own in latencies for latency in own]
    return Round(len(all_latencies), time.perf_counter() - started, all_latencies)
