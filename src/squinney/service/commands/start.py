"""Where the command `squinney` begins: what can be answered at once is, the rest is loaded only then."""

from __future__ import annotations

import sys

from squinney import __version__

INSTALL = "pip install 'squinney[server]'"


def main() -> None:
    """Run the command; where a package of the extra `server` is missing, say so in one sentence."""
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
