"""Count in its source how many writes a function may send: on any branch, whether or not a test runs it.

Counts stop at two, which means two or more. The body of a loop may run more than once. A write that fails with
`DuplicateKeyError` has changed nothing and does not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from squinney.testing.writes.sources import Class, Function, Node, Sources, local_types

MANY = 2
# The driver may split these into several commands.
IN_BATCHES = {"insert_many", "bulk_write"}
SINGLE = {
    *("insert_one", "update_one", "replace_one", "delete_one", "update_many", "delete_many"),
    *("find_one_and_update", "find_one_and_replace", "find_one_and_delete", "commit_transaction"),
}
NO_PATH = -MANY
Paths = tuple[int, int]  # the most writes on a path that continues after a statement, and on one that leaves the block


class PossibleWrites:
    """Counts the writes of functions and of all that they may call."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._counts: dict[Function, int] = {}
        self._types: dict[Function, dict[str, Class]] = {}
        self._called: dict[ast.expr, list[Function]] = {}
        self._callers: dict[Function, set[Function]] = {}
        self._waiting: dict[Function, None] = {}

    def of(self, function: Function) -> int:
        """Return 0, 1, or 2 for two or more. Counts are repeated until no caller's count changes any more."""
        self._begin(function)
        while self._waiting:
            caller, _ = self._waiting.popitem()
            count = self._count(caller)
            if count != self._counts[caller]:
                self._counts[caller] = count
                self._waiting.update(dict.fromkeys(self._callers.get(caller, ())))
        return self._counts[function]

    def _begin(self, function: Function) -> None:
        if function not in self._counts:
            self._counts[function] = 0
            self._types[function] = local_types(function)
            self._waiting[function] = None

    def _count(self, function: Function) -> int:
        return max(0, *FunctionWrites(self, function).block(function.node.body))

    def called(self, call: ast.expr, function: Function, *, guess: bool) -> int:
        """Return the most writes that calling this expression may send."""
        if call not in self._called:
            targets = self._sources.resolve(call, function.module, self._types[function], guess=guess)
            self._called[call] = [run for target in targets for run in self._functions_run_by(target)]
            for run in self._called[call]:
                self._begin(run)
                self._callers.setdefault(run, set()).add(function)
        return max((self._counts[run] for run in self._called[call]), default=0)

    def _functions_run_by(self, target: Function | Class) -> Iterable[Function]:
        if isinstance(target, Function):
            return [target]
        return [
            method
            for name in ("__init__", "__enter__", "__exit__")
            for method in self._sources.methods_of(target, name)
        ]


class FunctionWrites:
    """Counts the writes on the paths through one function."""

    def __init__(self, writes: PossibleWrites, function: Function) -> None:
        self._writes = writes
        self._function = function
        inner = (node for node in ast.walk(function.node) if isinstance(node, Node) and node is not function.node)
        self._nested = {node.name: node for node in inner}
        self._inside: list[str] = []

    def block(self, statements: Sequence[ast.stmt]) -> Paths:
        """Count the writes of statements that run one after the other."""
        on, left = 0, NO_PATH
        for statement in statements:
            if on == NO_PATH:
                break
            further, leaving = self._statement(statement)
            left = max(left, _sum(on, leaving))
            on = _sum(on, further)
        return on, left

    def _statement(self, node: ast.stmt) -> Paths:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return 0, NO_PATH
            case ast.Return() | ast.Raise():
                return NO_PATH, self._expressions(node)
            case ast.Break() | ast.Continue():
                return NO_PATH, 0
            case ast.If():
                return _then(self.expression(node.test), _either(self.block(node.body), self.block(node.orelse)))
            case ast.For() | ast.AsyncFor():
                return self._loop(self.expression(node.iter), node)
            case ast.While():
                return self._loop(0, node, test=self.expression(node.test))
            case ast.With() | ast.AsyncWith():
                return _then(sum(self.expression(item.context_expr) for item in node.items), self.block(node.body))
            case ast.Try():
                return self._try(node)
            case ast.Match():
                return _then(self.expression(node.subject), _either(*(self.block(case.body) for case in node.cases)))
            case _:
                return self._expressions(node), NO_PATH

    def _loop(self, before: int, loop: ast.For | ast.AsyncFor | ast.While, *, test: int = 0) -> Paths:
        """Count a loop. The body can run again only if its end or a `continue` can be reached."""
        on, left = self.block(loop.body)
        again = max(on, left if _has(loop, ast.Continue) else NO_PATH)
        most = MANY if test or again > 0 else max(0, on, left)
        after = self.block(loop.orelse)
        return _then(before, _either((most, most if left != NO_PATH else NO_PATH), _then(max(0, most), after)))

    def _try(self, statement: ast.Try) -> Paths:
        body, after = self.block(statement.body), self.block(statement.orelse)
        paths = [_either(_then(body[0], after) if body[0] != NO_PATH else (NO_PATH, NO_PATH), (NO_PATH, body[1]))]
        done = max(0, *body)
        for handler in statement.handlers:
            refused = "DuplicateKeyError" in ast.unparse(handler.type) if handler.type else False
            paths.append(_then(max(0, done - 1) if refused else done, self.block(handler.body)))
        on, left = _either(*paths)
        last = max(0, self.block(statement.finalbody)[0])
        return _sum(on, last), _sum(left, last)

    def _expressions(self, statement: ast.stmt) -> int:
        return sum(self.expression(node) for node in ast.iter_child_nodes(statement) if isinstance(node, ast.expr))

    def expression(self, node: ast.expr) -> int:
        """Count the writes of all functions that the expression calls, or passes as arguments."""
        match node:
            case ast.IfExp():
                return self.expression(node.test) + max(self.expression(node.body), self.expression(node.orelse))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return MANY if any(self._child(child) for child in ast.iter_child_nodes(node)) else 0
            case ast.Lambda():
                return self.expression(node.body)
            case ast.Call():
                arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
                inner = self.expression(node.func) if not isinstance(node.func, ast.Name | ast.Attribute) else 0
                if isinstance(node.func, ast.Attribute):
                    inner = self.expression(node.func.value)
                named = [value for value in arguments if isinstance(value, ast.Name | ast.Attribute)]
                passed = sum(map(self._reference, named)) + sum(map(self.expression, arguments))
                return inner + self._call(node.func) + passed
            case _:
                return sum(self._child(child) for child in ast.iter_child_nodes(node))

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
    return NO_PATH if NO_PATH in (first, second) else min(MANY, first + second)


def _then(first: int, paths: Paths) -> Paths:
    return _sum(min(MANY, first), paths[0]), _sum(min(MANY, first), paths[1])


def _either(*paths: Paths) -> Paths:
    return max(on for on, _ in paths), max(left for _, left in paths)


def _has(statement: ast.stmt, kind: type[ast.stmt]) -> bool:
    return any(isinstance(node, kind) for node in ast.walk(statement))
