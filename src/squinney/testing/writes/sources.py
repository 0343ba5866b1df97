"""Read source code: which functions and classes it defines, and which of them a call may run.

Names and annotations decide. If they do not show the class of `x`, then `x.name()` counts as a call of every method
called `name`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

Node = ast.FunctionDef | ast.AsyncFunctionDef
# Methods of dicts, lists, sets, strings, files, threads and context variables: a guess by such a name is mostly wrong.
COMMON = {name for kind in (dict, list, set, str, bytes, int) for name in dir(kind)} | {
    *(
        "close",
        "read",
        "write",
        "start",
        "next",
        "result",
        "wait",
        "submit",
        "map",
        "run",
        "send",
        "name",
        "all",
        "reset",
    )
}


@dataclass(eq=False)
class Function:
    """A function or method; `name` is `function` or `Class.method`."""

    name: str
    node: Node
    module: Module
    owner: Class | None = None

    def __repr__(self) -> str:
        return f"{self.module.name}.{self.name}"


@dataclass(eq=False)
class Class:
    """A class and its methods."""

    name: str
    node: ast.ClassDef
    module: Module
    methods: dict[str, Function] = field(default_factory=dict)
    _attributes: dict[str, Class] | None = None

    @property
    def attributes(self) -> dict[str, Class]:
        """The classes of its attributes `self.x`, by name, from assignments and annotations."""
        if self._attributes is not None:
            return self._attributes
        classes: dict[str, Class] = {}
        self._attributes = classes  # before it is filled, since the class of one attribute may depend on another
        for statement in self.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                _put(classes, statement.target.id, self.module.annotated(statement.annotation))
        for method in self.methods.values():
            types = _parameters(method)
            for node in ast.walk(method.node):
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    if isinstance(target, ast.Attribute) and _is_name(target.value, "self"):
                        _put(classes, target.attr, self.module.type_of(node.value, types))
        return classes


@dataclass(eq=False)
class Module:
    """One source file."""

    name: str
    tree: ast.Module
    sources: Sources
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)

    @cached_property
    def imported(self) -> dict[str, str]:
        """The dotted name of each imported module, function and class, by its local name."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.asname or alias.name: alias.name for alias in node.names}
        return names

    def named(self, name: str) -> Function | Class | Module | None:
        """Return what a plain name means in this module."""
        if name in self.functions or name in self.classes:
            return self.functions.get(name) or self.classes[name]
        return self.sources.named(self.imported.get(name, ""))

    def annotated(self, annotation: ast.expr | None) -> Class | None:
        """Return the first class that an annotation names and that the sources define."""
        if annotation is None:
            return None
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        names = (node.id for node in ast.walk(annotation) if isinstance(node, ast.Name))
        return next((named for name in names if isinstance(named := self.named(name), Class)), None)

    def type_of(self, value: ast.expr | None, types: dict[str, Class]) -> Class | None:
        """Return the class of an expression, or None if names and annotations do not show it."""
        if isinstance(value, ast.Name):
            return types.get(value.id)
        if isinstance(value, ast.Attribute):
            owner = self.type_of(value.value, types)
            return owner.attributes.get(value.attr) if owner else None
        if isinstance(value, ast.BoolOp | ast.IfExp):
            parts = value.values if isinstance(value, ast.BoolOp) else [value.body, value.orelse]
            return next((owner for part in parts if (owner := self.type_of(part, types))), None)
        if isinstance(value, ast.Call):
            called = self.sources.resolve(value.func, self, types)
            made = [run if isinstance(run, Class) else run.module.annotated(run.node.returns) for run in called]
            return made[0] if made else None
        return None


class Sources:
    """All modules in some packages. `roots` are the folders of the packages."""

    def __init__(self, *roots: Path) -> None:
        self.modules: dict[str, Module] = {}
        for path in (path for root in roots for path in sorted(root.rglob("*.py"))):
            top = next(root for root in roots if path.is_relative_to(root))
            if path.is_relative_to(top / "testing"):  # test tools, which no operation calls
                continue
            parts = path.relative_to(top.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.modules[name] = self._read(name, path)
        self.methods: dict[str, list[Function]] = {}
        for function in self.functions():
            if function.owner:
                self.methods.setdefault(function.node.name, []).append(function)

    def _read(self, name: str, path: Path) -> Module:
        module = Module(name, ast.parse(path.read_text()), self)
        for node in module.tree.body:
            if isinstance(node, Node):
                module.functions[node.name] = Function(node.name, node, module)
            elif isinstance(node, ast.ClassDef):
                module.classes[node.name] = made = Class(node.name, node, module)
                made.methods = {
                    method.name: Function(f"{node.name}.{method.name}", method, module, made)
                    for method in node.body
                    if isinstance(method, Node)
                }
        return module

    def functions(self) -> Iterator[Function]:
        """Yield every function and method."""
        for module in self.modules.values():
            yield from module.functions.values()
            for owner in module.classes.values():
                yield from owner.methods.values()

    def named(self, name: str) -> Function | Class | Module | None:
        """Return what a dotted name means, also if the package only re-exports it."""
        if name in self.modules:
            return self.modules[name]
        home, _, last = name.rpartition(".")
        return self.modules[home].named(last) if home in self.modules else None

    def resolve(
        self, called: ast.expr, module: Module, types: dict[str, Class], *, guess: bool = True
    ) -> Sequence[Function | Class]:
        """Return what calling an expression may call. With `guess`, an unknown `x.name` means every method `name`."""
        if isinstance(called, ast.Name):
            named = module.named(called.id)
            return [named] if isinstance(named, Function | Class) else []
        if not isinstance(called, ast.Attribute):
            return []
        if isinstance(called.value, ast.Name) and isinstance(home := module.named(called.value.id), Module):
            named = home.named(called.attr)
            return [named] if isinstance(named, Function | Class) else []
        if _is_name(called.value, "super") and "self" in types:
            bases = self.with_bases(types["self"])[1:]
            return [base.methods[called.attr] for base in bases if called.attr in base.methods][:1]
        owner = module.type_of(called.value, types) or self._class_named(called.value, module)
        if owner and (methods := self.methods_of(owner, called.attr)):
            return list(methods)
        if not guess or called.attr in COMMON or called.attr.startswith("__"):
            return []
        return list(self.methods.get(called.attr, ()))

    def _class_named(self, value: ast.expr, module: Module) -> Class | None:
        named = module.named(value.id) if isinstance(value, ast.Name) else None
        return named if isinstance(named, Class) else None

    def methods_of(self, owner: Class, name: str) -> list[Function]:
        """Return the method of a class, which may be inherited, and the methods of subclasses that override it."""
        own = next((base.methods[name] for base in self.with_bases(owner) if name in base.methods), None)
        overriding = (child.methods[name] for child in self._subclasses.get(owner, ()) if name in child.methods)
        return [*([own] if own else []), *overriding]

    @cached_property
    def _subclasses(self) -> dict[Class, list[Class]]:
        subclasses: dict[Class, list[Class]] = {}
        for module in self.modules.values():
            for child in module.classes.values():
                for base in self.with_bases(child)[1:]:
                    subclasses.setdefault(base, []).append(child)
        return subclasses

    def with_bases(self, owner: Class) -> list[Class]:
        """Return the class and the classes it inherits from, as far as the sources define them."""
        classes = [owner]
        for base in owner.node.bases:
            name = base.value if isinstance(base, ast.Subscript) else base
            named = owner.module.named(name.id) if isinstance(name, ast.Name) else None
            if isinstance(named, Class) and named is not owner:
                classes += self.with_bases(named)
        return classes


def _parameters(function: Function) -> dict[str, Class]:
    """Return the classes of a function's parameters, by name."""
    arguments = function.node.args
    classes: dict[str, Class] = {}
    for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        _put(classes, parameter.arg, function.module.annotated(parameter.annotation))
    if function.owner and arguments.args and arguments.args[0].arg in ("self", "cls"):
        classes[arguments.args[0].arg] = function.owner
    return classes


def local_types(function: Function) -> dict[str, Class]:
    """Return the classes of a function's parameters and local variables, by name."""
    types = _parameters(function)
    for node in ast.walk(function.node):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            _put(types, node.targets[0].id, function.module.type_of(node.value, types))
        elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            _put(types, node.optional_vars.id, function.module.type_of(node.context_expr, types))
    return types


def _put(classes: dict[str, Class], name: str, owner: Class | None) -> None:
    if owner is not None:
        classes[name] = owner


def _is_name(value: ast.expr, name: str) -> bool:
    called = value.func if isinstance(value, ast.Call) else value
    return isinstance(called, ast.Name) and called.id == name
