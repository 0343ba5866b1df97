"""Without a guard that isolation depends on, the explorer finds the bug within a minute."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from squinney.testing import Explorer, Refuted
from squinney.transactions import Mode, steps
from tests.explore.faults import FAULTS

MODES: list[tuple[Mode, Mode]] = [("two-phase", "native"), ("native", "two-phase"), ("two-phase", "two-phase")]


@pytest.mark.parametrize("modes", MODES)
def test_steps_that_do_not_wait_for_undecided_runs_are_found(modes: tuple[Mode, Mode], explorer: Explorer) -> None:
    fault = next(fault for fault in FAULTS if fault.name == "write skew")
    with patch.object(steps, "free_for", lambda step: {}), pytest.raises(Refuted):
        explorer.explore(
            fault.operations(modes), prepare=fault.prepare, collections=fault.collections, schedules=1_000, seconds=60
        )
