"""`python -m bench [name...]` runs all benchmarks or the named ones; `--quick` gives rough figures."""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import tempfile
from pathlib import Path

import bench
from squinney.mongo.connect import connect
from squinney.settings import Settings


def names() -> list[str]:
    """Return the modules of this package that have a `run(connection, ...)`."""
    names = [module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_")]
    return [name for name in names if hasattr(importlib.import_module(f"bench.{name}"), "run")]


def main() -> None:
    """Run the benchmarks on a private MongoDB, or on MONGODB_URI."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("names", nargs="*", help="the benchmarks to run; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer, shorter rounds")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="squinney-bench-") as folder:
        settings = Settings.from_environment(data_folder=Path(folder) / "data")
        with connect(settings) as connection:
            for name in arguments.names or names():
                print(f"== {name}", flush=True)
                run = importlib.import_module(f"bench.{name}").run
                quick = {"rounds": 3, "seconds": 0.5} if arguments.quick else {}
                accepted = inspect.signature(run).parameters
                run(connection, **{option: value for option, value in quick.items() if option in accepted})


if __name__ == "__main__":
    main()
