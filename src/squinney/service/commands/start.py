"""The entry point of the command `squinney`: prints the version at once, and imports the rest only if needed."""

from __future__ import annotations

import sys

from squinney import __version__

INSTALL = "pip install 'squinney[server]'"


def main() -> None:
    """Run the command; if a package of the extra `server` is missing, print one sentence that names it."""
    if sys.argv[1:] == ["--version"]:
        print(f"squinney {__version__}")
        return
    try:
        from squinney.service.commands.main import main as run

        run()
    except ModuleNotFoundError as error:
        if (error.name or "squinney").partition(".")[0] == "squinney":
            raise
        print(f"squinney: the command needs {error.name}, which is not installed: {INSTALL}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
