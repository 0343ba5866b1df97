"""All scenes."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.explore.scene import Scene

SCENES: list[Scene] = [
    scene
    for path in sorted(Path(__file__).parent.glob("scenes_*.py"))
    for scene in importlib.import_module(f"tests.explore.{path.stem}").SCENES
]
