"""What is public is documented: exports, the error tree, and what each writing method says of crashes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.plugins.write_rules import excepted, of_the_product

import squinney
import squinney.patterns
from squinney import errors, transactions
from squinney.assembly import SYSTEMS, assemble
from squinney.errors import SquinneyError
from squinney.mongo.deadlines import operation

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page: page.read_text() for page in DOCS.rglob("*.md") if "_build" not in page.parts}
ALL_PAGES = "\n".join(PAGES.values())


def system_names() -> Iterator[ModuleType]:
    """The package of each system."""
    for system in SYSTEMS:
        yield importlib.import_module(system.package)


EXPORTS = [
    pytest.param(module.__name__, name, id=f"{module.__name__}.{name}")
    for module in [*system_names(), transactions]
    for name in module.__all__
]


@pytest.mark.parametrize(("module", "name"), EXPORTS)
def test_every_export_is_documented(module, name):
    """In code: `name`, `Class.name(...)`, or in an example; a word of the text is not enough."""
    in_code = re.findall(r"```.*?^```|`[^`\n]+`", ALL_PAGES, re.DOTALL | re.MULTILINE)
    assert any(re.search(rf"\b{name}\b", code) for code in in_code), (
        f"{module}.{name} is on no page: write of it in docs/, in code"
    )


# ---- the API reference ----

REFERENCE = {page.name: text for page, text in PAGES.items() if page.parent.name == "reference"}
PUBLIC = [*(system.package for system in SYSTEMS), "squinney", "squinney.errors", "squinney.testing"]
PUBLIC += ["squinney.transactions", "squinney.transactions.two_phase"]
PUBLIC += [f"squinney.patterns.{module.name}" for module in pkgutil.iter_modules(squinney.patterns.__path__)]


def test_every_public_module_is_in_the_reference_with_all_its_names():
    shown = re.findall(r"^\.\. automodule:: (\S+)$", "\n".join(REFERENCE.values()), re.MULTILINE)
    assert [module for module in PUBLIC if module not in shown] == [], "add it to a page of docs/reference"
    assert [module for module in shown if shown.count(module) > 1] == []
    conf = (DOCS / "conf.py").read_text()
    assert '"members": True, "undoc-members": True' in conf, "else the reference leaves names out"
    assert re.findall(r":exclude-members: (.*)", "\n".join(REFERENCE.values())) == ["Key"], "it is in transactions"


@pytest.mark.parametrize(("module", "name"), EXPORTS)
def test_every_class_and_function_of_the_reference_has_a_docstring(module, name):
    thing = getattr(importlib.import_module(module), name)
    if inspect.isfunction(thing) or (inspect.isclass(thing) and thing.__module__.startswith("squinney")):
        assert thing.__doc__, f"{module}.{name} has no docstring"


def test_every_pattern_is_on_the_patterns_page():
    page = PAGES[DOCS / "patterns.md"]
    names = [module.name for module in pkgutil.iter_modules(squinney.patterns.__path__)]
    assert [name for name in names if f"`{name}`" not in page] == [], "write of it in docs/patterns.md"


# ---- the error tree ----


def import_everything() -> None:
    for module in pkgutil.walk_packages(squinney.__path__, "squinney."):
        importlib.import_module(module.name)


Line = tuple[str, ...]  # an error's families and name, and last the system that it says it belongs to
GROUPS = {system.name for system in SYSTEMS}


def real_tree(kind: type[SquinneyError], above: Line = ()) -> list[Line]:
    """Every error, one line each: two of one name, of two systems, are two."""
    lines: list[Line] = []
    for child in kind.__subclasses__():
        package, _, rest = child.__module__.partition(".")
        if package == "squinney":
            group = rest.partition(".")[0]
            lines.append((*above, child.__name__, group if group in GROUPS else ""))
            lines += real_tree(child, (*above, child.__name__))
    return lines


def drawn_tree(drawing: str) -> list[Line]:
    lines: list[Line] = []
    path: list[str] = []
    for branch, name, group in re.findall(r"^([ │]*[├└]── )(\w+) *([a-z]*)", drawing, re.MULTILINE):
        path[len(branch) // 4 - 1 :] = [name]
        lines.append((*path, group if group in GROUPS else ""))
    return lines


def test_the_drawn_error_tree_is_the_real_one():
    import_everything()
    assert errors.__doc__
    drawn, real = Counter(drawn_tree(errors.__doc__)), Counter(real_tree(SquinneyError))
    assert [*(real - drawn)] == [], "draw these in the tree of src/squinney/errors.py, each with its system"
    assert [*(drawn - real)] == [], "take these out of the tree of src/squinney/errors.py: no error is so"


def test_each_error_has_a_name_and_a_code_of_its_own():
    import_everything()
    classes = [SquinneyError]
    for kind in classes:
        classes += [child for child in kind.__subclasses__() if child.__module__.startswith("squinney.")]
    names = {(kind.code, kind.__name__) for kind in classes}
    assert len(names) == len({code for code, _ in names})
    assert ("unknown-account", "UnknownAccount") in names
    assert len(names) == len({name for _, name in names})


# ---- docstrings ----


def services(db: Any) -> Iterator[type]:
    for made in assemble(db).services.values():
        for service in made.values():
            yield type(service)


def bound_of(method: Any) -> operation | None:
    """The `operation` that decorates a method: the one value its wrapper closes over besides the function."""
    while method is not None:  # a full run wraps public methods once more, to count their writes
        cells = [cell.cell_contents for cell in getattr(method, "__closure__", None) or ()]
        if decorator := next((content for content in cells if isinstance(content, operation)), None):
            return decorator
        method = getattr(method, "__wrapped__", None)
    return None


def public_methods(service: type) -> Iterator[tuple[str, Any]]:
    for name, method in inspect.getmembers(service, inspect.isfunction):
        if not name.startswith("_"):
            yield f"{service.__name__}.{name}", method


ASKS = re.compile(r"self\._db\[|self\._db\.(?!client\.options)|self\._transactions\.run")


def asks_mongodb(method: Any) -> bool:
    """Whether a method itself uses the database or runs steps; handing the database on does not count."""
    return bool(ASKS.search(inspect.getsource(method)))


def test_every_public_method_says_what_it_does_and_is_bounded_in_time(db):
    for service in {*services(db)}:
        for name, method in public_methods(service):
            assert method.__doc__, f"{name} has no docstring"
            assert bound_of(method) or not asks_mongodb(method), f"{name} is not decorated with `operation`"


def test_every_public_method_that_writes_more_than_once_says_what_decides_and_what_a_crash_leaves(db):
    """One write happens or it does not, and needs no words."""
    operations = of_the_product().all
    methods = dict(
        method for service in {*services(db), transactions.Transactions} for method in public_methods(service)
    )
    several = {name for name in methods if name in operations and operations[name].writes > 1} - excepted("swept")
    assert {"Accounts.open", "Accounts.transfer", "Carts.add_item", "Nodes.create", "Transactions.run"} <= several
    for name in several:
        for line in ("Atomic:", "After a crash:"):
            advice = f"{name} writes more than once: say in its docstring {line!r} (see CONTRIBUTING.md)"
            assert re.search(rf"^\s*{line} \w", methods[name].__doc__ or "", re.MULTILINE), advice
