"""Import what forked children of the tests need: the commands and the cases of the crash sweep."""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path

import squinney

SOURCE = Path(squinney.__file__).parent
EXAMPLES = Path(__file__).parents[1] / "examples"  # pytest adds it only to its own path
sys.path.append(str(EXAMPLES))

from squinney.identity import passwords  # noqa: E402
from tests.crash.case import modules  # noqa: E402
from tests.passwords import REPLACED  # noqa: E402

COMMANDS = [*SOURCE.glob("service/commands/*.py"), *SOURCE.glob("*/surface/cli.py")]
NAMES = [
    *modules(),
    *(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in COMMANDS if path.stem[0] != "_"),
]
for name in NAMES:
    importlib.import_module(name)
vars(passwords).update(REPLACED)
gc.freeze()  # garbage collection in a child would touch, and so copy, every memory page
