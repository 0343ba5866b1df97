"""How many writes a function may send, by its source: on any branch, whether or not a test takes it.

Counted up to two, which stands for more. A loop may go round again; a write that was refused because a document is
there already has changed nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from squinney.testing.writes.sources import Class, Function, Node, Sources, local_types

MANY = 2
# The driver may send these in several batches.
IN_BATCHES = {"insert_many", "bulk_write"}
SINGLE = {
    *("insert_one", "update_one", "replace_one", "delete_one", "update_many", "delete_many"),
    *("find_one_and_update", "find_one_and_replace", "find_one_and_delete", "commit_transaction"),
}
NOTHING = -MANY  # no path leads there
Paths = tuple[int, int]  # the most writes on a path that goes on behind, and on one that leaves


class PossibleWrites:
    """For functions, and all that they may call."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._counts: dict[Function, int] = {}
        self._types: dict[Function, dict[str, Class]] = {}
        self._called: dict[ast.expr, list[Function]] = {}
        self._callers: dict[Function, set[Function]] = {}
        self._waiting: dict[Function, None] = {}

    def of(self, function: Function) -> int:
        """None, one, or two for more."""
        self._look_at(function)
        while self._waiting:
            one, _ = self._waiting.popitem()
            count = self._count(one)
            if count != self._counts[one]:
                self._counts[one] = count
                self._waiting.update(dict.fromkeys(self._callers.get(one, ())))
        return self._counts[function]

    def _look_at(self, function: Function) -> None:
        if function not in self._counts:
            self._counts[function] = 0
            self._types[function] = local_types(function)
            self._waiting[function] = None

    def _count(self, function: Function) -> int:
        return max(0, *Body(self, function).block(function.node.body))

    def called(self, call: ast.expr, function: Function, *, guess: bool) -> int:
        """The most that what this expression names may send."""
        if call not in self._called:
            meant = self._sources.meant(call, function.module, self._types[function], guess=guess)
            self._called[call] = [behind for one in meant for behind in self._behind(one)]
            for behind in self._called[call]:
                self._look_at(behind)
                self._callers.setdefault(behind, set()).add(function)
        return max((self._counts[one] for one in self._called[call]), default=0)

    def _behind(self, one: Function | Class) -> Iterable[Function]:
        if isinstance(one, Function):
            return [one]
        return [
            method for name in ("__init__", "__enter__", "__exit__") for method in self._sources.methods_of(one, name)
        ]


class Body:
    """The paths through one function."""

    def __init__(self, writes: PossibleWrites, function: Function) -> None:
        self._writes = writes
        self._function = function
        inner = (node for node in ast.walk(function.node) if isinstance(node, Node) and node is not function.node)
        self._nested = {node.name: node for node in inner}
        self._inside: list[str] = []

    def block(self, statements: Sequence[ast.stmt]) -> Paths:
        """One statement after the other."""
        on, left = 0, NOTHING
        for statement in statements:
            if on == NOTHING:
                break
            further, leaving = self._statement(statement)
            left = max(left, _sum(on, leaving))
            on = _sum(on, further)
        return on, left

    def _statement(self, one: ast.stmt) -> Paths:
        match one:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return 0, NOTHING
            case ast.Return() | ast.Raise():
                return NOTHING, self._expressions(one)
            case ast.Break() | ast.Continue():
                return NOTHING, 0
            case ast.If():
                return _then(self.expression(one.test), _either(self.block(one.body), self.block(one.orelse)))
            case ast.For() | ast.AsyncFor():
                return self._loop(self.expression(one.iter), one)
            case ast.While():
                return self._loop(0, one, test=self.expression(one.test))
            case ast.With() | ast.AsyncWith():
                return _then(sum(self.expression(item.context_expr) for item in one.items), self.block(one.body))
            case ast.Try():
                return self._try(one)
            case ast.Match():
                return _then(self.expression(one.subject), _either(*(self.block(case.body) for case in one.cases)))
            case _:
                return self._expressions(one), NOTHING

    def _loop(self, before: int, one: ast.For | ast.AsyncFor | ast.While, *, test: int = 0) -> Paths:
        """Round again only where the body's end is reached, or it says so."""
        on, left = self.block(one.body)
        again = max(on, left if _has(one, ast.Continue) else NOTHING)
        most = MANY if test or again > 0 else max(0, on, left)
        after = self.block(one.orelse)
        return _then(before, _either((most, most if left != NOTHING else NOTHING), _then(max(0, most), after)))

    def _try(self, one: ast.Try) -> Paths:
        body, after = self.block(one.body), self.block(one.orelse)
        paths = [_either(_then(body[0], after) if body[0] != NOTHING else (NOTHING, NOTHING), (NOTHING, body[1]))]
        done = max(0, *body)
        for handler in one.handlers:
            refused = "DuplicateKeyError" in ast.unparse(handler.type) if handler.type else False
            paths.append(_then(max(0, done - 1) if refused else done, self.block(handler.body)))
        on, left = _either(*paths)
        last = max(0, self.block(one.finalbody)[0])
        return _sum(on, last), _sum(left, last)

    def _expressions(self, one: ast.stmt) -> int:
        return sum(self.expression(node) for node in ast.iter_child_nodes(one) if isinstance(node, ast.expr))

    def expression(self, one: ast.expr) -> int:
        """All that it calls, and all that it hands over to be called."""
        match one:
            case ast.IfExp():
                return self.expression(one.test) + max(self.expression(one.body), self.expression(one.orelse))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return MANY if any(self._child(node) for node in ast.iter_child_nodes(one)) else 0
            case ast.Lambda():
                return self.expression(one.body)
            case ast.Call():
                handed = [*one.args, *(keyword.value for keyword in one.keywords)]
                inner = self.expression(one.func) if not isinstance(one.func, ast.Name | ast.Attribute) else 0
                if isinstance(one.func, ast.Attribute):
                    inner = self.expression(one.func.value)
                named = sum(self._reference(value) for value in handed if isinstance(value, ast.Name | ast.Attribute))
                return inner + self._call(one.func) + named + sum(self.expression(value) for value in handed)
            case _:
                return sum(self._child(node) for node in ast.iter_child_nodes(one))

    def _child(self, node: ast.AST) -> int:
        if isinstance(node, ast.expr):
            return self.expression(node)
        return sum(self._child(inner) for inner in ast.iter_child_nodes(node))

    def _call(self, called: ast.expr) -> int:
        if isinstance(called, ast.Attribute):
            if called.attr in IN_BATCHES:
                return MANY
            if called.attr in SINGLE:
                return 1
        return self._reference(called, guess=True)

    def _reference(self, named: ast.expr, *, guess: bool = False) -> int:
        if isinstance(named, ast.Name) and named.id in self._nested and named.id not in self._inside:
            self._inside.append(named.id)
            most = max(0, *self.block(self._nested[named.id].body))
            self._inside.pop()
            return most
        return self._writes.called(named, self._function, guess=guess)


def _sum(first: int, second: int) -> int:
    return NOTHING if NOTHING in (first, second) else min(MANY, first + second)


def _then(first: int, paths: Paths) -> Paths:
    return _sum(min(MANY, first), paths[0]), _sum(min(MANY, first), paths[1])


def _either(*paths: Paths) -> Paths:
    return max(on for on, _ in paths), max(left for _, left in paths)


def _has(one: ast.stmt, kind: type[ast.stmt]) -> bool:
    return any(isinstance(node, kind) for node in ast.walk(one))
