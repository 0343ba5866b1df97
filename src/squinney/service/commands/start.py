"""The entry point of the command `squinney`: prints the version at once, and imports the rest only if needed."""

from __future__ import annotations

import sys
import traceback

from squinney import __version__

INSTALL = "pip install 'squinney[server]', or '.[server]' in a clone"
# What the extra `server` brings, and what that needs. Another missing package is one of a system of the user's own.
OF_SERVER = {
    *("anyio", "argon2", "click", "fastapi", "httptools", "jinja2", "markdown_it", "multipart", "nh3", "PIL"),
    *("prometheus_client", "pydantic", "pymongo", "rich", "starlette", "typer", "uvicorn", "websockets", "yaml"),
    "zstandard",
}


def main() -> None:
    """Run the command; if a package of the extra `server` is missing, print one sentence that names it."""
    if sys.argv[1:] == ["--version"]:
        print(f"squinney {__version__}")
        return
    try:
        from squinney.service.commands.main import main as run

        run()
    # guard: a missing package gives one sentence
    except ModuleNotFoundError as error:
        missing = (error.name or "squinney").partition(".")[0]
        if missing == "squinney":
            raise
        hint = f"the command needs {error.name}, which is not installed: {INSTALL}"
        print(f"squinney: {hint if missing in OF_SERVER else _import_of(error)}", file=sys.stderr)
        sys.exit(70)  # `FAILED` in exit_codes.py; 1 means that a command found a problem


def _import_of(error: ModuleNotFoundError) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    return f"{error}: {frames[-1].filename}, line {frames[-1].lineno}, imports it"


if __name__ == "__main__":
    main()
