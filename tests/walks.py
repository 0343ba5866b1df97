"""Record the files that an operation passes through, and write them as `docs/architecture.md` shows them.

A file is passed if a function of it is running while a command is sent to the server, or is a coroutine, as those of
middlewares are. The files stand in the order in which they are
first passed, but those of `mongo/`, through which every command goes, at the end.
"""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pymongo import monitoring

import squinney

SOURCE = Path(squinney.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "architecture.md"
OF_THE_DRIVER = {"hello", "ping", "endSessions", "isMaster"}
# Folders of one piece: to a reader they are one place.
TOGETHER = ("http", "mongo", "transactions", "service/middleware")
# The first walk shows what every request passes; the others begin after it.
FIRST = "A transfer"
OF_EVERY_REQUEST = "service/middleware/"


class Walk(monitoring.CommandListener):
    """Records while `recording`, in threads that begin inside `in_new_threads`."""

    def __init__(self) -> None:
        self.passed: dict[str, str] = {}
        self.is_recording = False

    @contextmanager
    def in_new_threads(self) -> Iterator[None]:
        threading.setprofile(self._call)
        yield
        threading.setprofile(None)  # type: ignore[arg-type]

    @contextmanager
    def recording(self) -> Iterator[None]:
        self.passed, self.is_recording = {}, True
        yield
        self.is_recording = False

    def _call(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_coroutine = code.co_flags & inspect.CO_COROUTINE
        if self.is_recording and event == "call" and is_coroutine and (file := _file(code)):
            self.passed.setdefault(file, code.co_qualname)

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Note what is running in this thread."""
        if not self.is_recording or event.command_name in OF_THE_DRIVER:
            return
        frame: FrameType | None = sys._getframe()
        running: list[CodeType] = []
        while frame is not None:
            running.append(frame.f_code)
            frame = frame.f_back
        for code in reversed(running):
            if file := _file(code):
                self.passed.setdefault(file, code.co_qualname)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...

    @property
    def files(self) -> list[str]:
        """The files in order."""
        return sorted(self.passed, key=lambda file: file.startswith("mongo/"))

    @property
    def returns(self) -> int:
        """How often a folder is entered again after it was left."""
        folders = [_folder(file) for file in self.files]
        entered = [folder for at, folder in enumerate(folders) if at == 0 or folders[at - 1] != folder]
        return len(entered) - len(set(entered))

    def text(self, title: str) -> str:
        """Return the lines of the page."""
        shown = [file for file in self.files if title == FIRST or not file.startswith(OF_EVERY_REQUEST)]
        boxes = [f"{_name(self.passed[file])} | {file} | {_says(file)}" for file in shown]
        returns = f"Files: {len(self.files)}; returns to a folder that was left: {self.returns}.\n"
        return "\n".join([f"```{{way}} {title}", *boxes, "```", "", returns])


def _file(code: CodeType) -> str:
    """Return the file's path in the package; nothing for other code, and for what watches test runs."""
    path = code.co_filename.removeprefix(f"{SOURCE}/")
    return "" if path == code.co_filename or path.startswith("testing/") else path


def _folder(file: str) -> str:
    folder = str(Path(file).parent)
    return next((top for top in TOGETHER if f"{folder}/".startswith(f"{top}/")), folder)


def _name(qualname: str) -> str:
    return qualname.partition(".<locals>")[0].removesuffix(".__call__")


def _says(file: str) -> str:
    """Return the first sentence of the file's docstring, without marks and on one line."""
    docstring = ast.get_docstring(ast.parse((SOURCE / file).read_text())) or ""
    return " ".join(docstring.split("\n\n")[0].split()).replace("|", "/").replace("`", "")


def on_the_page(title: str) -> str:
    """Return what the page shows of a walk."""
    page = PAGE.read_text()
    begin, end = _around(title)
    return page.partition(begin)[2].partition(end)[0]


def write(title: str, text: str) -> None:
    """Put a walk on the page, between its two comments."""
    page = PAGE.read_text()
    begin, end = _around(title)
    before, _, rest = page.partition(begin)
    PAGE.write_text(f"{before}{begin}{text}{end}{rest.partition(end)[2]}")


def _around(title: str) -> tuple[str, str]:
    return f"% walk: {title}\n\n", f"\n% end: {title}\n"


def in_a_thread(act: Callable[[], object]) -> None:
    """Run in a new thread, and raise its error here."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
