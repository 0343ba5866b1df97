"""What `.ci/run` ends with, whatever happens on the way: it is copied and its helpers replaced."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
HELPER = """#!/usr/bin/env bash
# Prints and exits as the next line of `{name}.script` says: CODE TEXT
read -r code text < <(sed -n 1p {name}.script)
sed -i 1d {name}.script
echo "{name} $*" >> calls
[ -z "$text" ] || echo "$text"
exit "${{code:-0}}"
"""
ENVIRONMENT = """prepare() { :; }
find_browser() { :; }
find_nginx() { :; }
make() { "./make-${@: -1}"; }
"""
GOOD, BAD, RULE = "0 9 passed in 1s", "1 2 failed, 7 passed in 1s", "9 9 passed in 1s"
BAD_RULE, ALONE = "9 2 failed, 7 passed in 1s", "0 2 passed in 1s"


def helper(folder: Path, name: str, at: str, script: list[str]) -> None:
    (folder / f"{name}.script").write_text("".join(f"{line}\n" for line in script))
    path = folder / at
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HELPER.format(name=name))
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("tests", "others", "code", "runs"),
    [
        ([GOOD], {}, 0, 1),
        ([BAD, ALONE], {}, 0, 2),
        ([BAD, BAD], {}, 1, 2),
        ([RULE, GOOD], {}, 0, 2),
        ([RULE, RULE], {}, 9, 2),
        ([RULE, BAD, ALONE], {}, 0, 3),
        ([RULE, BAD, BAD], {}, 1, 3),
        ([BAD_RULE, ALONE, GOOD], {}, 0, 3),
        ([BAD_RULE, BAD, GOOD], {}, 1, 3),
        ([BAD_RULE, ALONE, BAD_RULE, ALONE], {}, 9, 4),
        (["3 2 failed, 7 passed in 1s"], {}, 1, 1),
        (["2 1 error in 1s"], {}, 1, 1),
        (["1 9 passed, 1 error in 1s"], {}, 1, 1),
        ([GOOD], {"guards": "1 guards: 6 tried of 9, 5 watched"}, 1, 1),
        ([RULE, RULE], {"guards": "1 guards: 6 tried of 9, 5 watched"}, 9, 2),
        ([GOOD], {"lint": "2"}, 1, 1),
        ([GOOD], {"docs": "2"}, 1, 1),
        ([GOOD], {"release": "2"}, 1, 1),
        ([BAD, ALONE], {"lint": "2", "docs": "2"}, 1, 2),
    ],
)
def test_it_ends_with_the_right_code_and_a_line(
    tmp_path: Path, tests: list[str], others: dict[str, str], code: int, runs: int
) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text(RUN.read_text())
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "environment.sh").write_text(
        'prepare() { :; }\nfind_browser() { :; }\nfind_nginx() { :; }\nmake() { "./make-${@: -1}"; }\n'
    )
    helper(tmp_path, "test", "test", tests)
    collecting = "0"
    guards = others.get("guards", "0 guards: 6 tried of 9, 6 watched")
    helper(tmp_path, "guards", ".venv/bin/python", [collecting, guards])
    for name in ("docs", "lint"):
        helper(tmp_path, name, f"make-{name}", [others.get(name, "0")])
    helper(tmp_path, "release", "tools/try_release", [others.get("release", "0")])
    ended = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    called = (tmp_path / "calls").read_text().splitlines()
    last = ended.stdout.splitlines()[-1]
    assert (ended.returncode, sum(call.startswith("test ") for call in called)) == (code, runs), ended.stderr
    assert last.startswith("ci: ")
    assert last.endswith(f"exit {code}")
    assert "guards: 6 tried" in last
    assert {"lint ", "docs ", "release "} <= set(called)
