"""What the project's source says of its structure: imports, classes, private attributes, lengths.

It is read, and nothing is imported. `test_imports.py` has the rules.
"""

from __future__ import annotations

import ast
import re
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

ROOT = Path(__file__).parents[1]
PACKAGES = ("columnar_kafka", "spark_sink")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> dict[str, str]:
    """Return each module's source."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py*")):  # and stubs
            if path.suffix not in (".py", ".pyi"):
                continue
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


@cache
def all_nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


# --- imports --------------------------------------------------------------------------------------


class Import(NamedTuple):
    """One imported name: the module it comes from, and where."""

    module: str
    name: str
    hidden: bool
    line: int
    by_name: bool = False  # when it is first used: the module's name is a string


def imports(tree: ast.AST, module: str = "", *, hidden: bool = False) -> Iterator[Import]:
    """Yield what is imported by statements."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield Import(each.name, "", hidden, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            for each in node.names:
                yield Import(str(node.module), each.name, hidden, node.lineno)
        elif not isinstance(node, ast.expr):
            is_function = isinstance(node, Function)
            yield from imports(node, module, hidden=hidden or is_function)


def imports_by_name(tree: ast.AST, modules: Collection[str]) -> Iterator[Import]:
    """Yield what is imported without a statement, or may be: strings and attributes are its name.

    Every full name of one of `modules` counts, and whatever is passed to `import_module`. A bare
    `columnar_kafka` in a string does not: one of Spark's formats has that name too.
    """
    for node in all_nodes(tree):
        if isinstance(node, ast.Call) and imports_modules(node.func):
            for each in node.args:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    assert each.value[:1] != ".", f"{each.lineno}: a relative import"
                    yield Import(each.value, "", hidden=True, line=each.lineno, by_name=True)
        elif isinstance(node, ast.Constant) and node.value in modules and "." in str(node.value):
            yield Import(str(node.value), "", hidden=True, line=node.lineno, by_name=True)
        elif isinstance(node, ast.Attribute) and (name := dotted(node)) in modules:
            yield Import(name, "", hidden=False, line=node.lineno)


def imports_modules(node: ast.expr) -> bool:
    """Whether this is the function that imports by name."""
    return last_name(node) in {"import_module", "__import__"}


def last_name(node: ast.expr) -> str:
    """Return `c` for `c`, and for `a.b.c`; "" for what is neither."""
    return getattr(node, "id", None) or getattr(node, "attr", "")


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for that; "" for an attribute of anything but a name."""
    if isinstance(node, ast.Attribute):
        return f"{before}.{node.attr}" if (before := dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def uses_import_module(tree: ast.AST) -> bool:
    """Whether a module imports by name, whatever it calls the function."""
    return any(
        (isinstance(node, ast.expr) and imports_modules(node))
        or (isinstance(node, ast.alias) and node.name == "import_module")
        for node in all_nodes(tree)
    )


def parts_of_names(tree: ast.AST, modules: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield strings that begin as a module's name: a name put together of parts is not seen."""
    for node in all_nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            begins = re.fullmatch(rf"({'|'.join(PACKAGES)})\.[\w.:]*", node.value)
            if begins and node.value not in modules:
                yield node.lineno, node.value


# --- classes and their private attributes ---------------------------------------------------------


class Use(NamedTuple):
    """One use of a private attribute, or an import of a private name."""

    line: int
    name: str
    code: str


PUBLIC = {"_asdict", "_fields", "_make", "_replace"}
"""Of named tuples."""
BY_STRING = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller"}


def is_private(name: object) -> bool:
    return (
        isinstance(name, str)
        and name.isidentifier()
        and name.startswith("_")
        and not name.endswith("__")
        and name not in PUBLIC
    )


def private_uses(tree: ast.AST) -> Iterator[tuple[Use, str]]:
    """Yield each use of a private attribute, and whose it is: an expression; "" if that is unknown.

    confluent-kafka has constants with such names.
    """
    for node in inside(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner.rpartition(".")[2] != "KafkaError":
                yield Use(node.lineno, node.attr, ast.unparse(node)), owner
        elif isinstance(node, ast.Call):
            if last_name(node.func) in BY_STRING:
                for each in node.args:
                    if isinstance(each, ast.Constant) and is_private(each.value):
                        owner = "" if each is node.args[0] else ast.unparse(node.args[0])
                        yield Use(node.lineno, each.value, ast.unparse(node)), owner
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            holder = re.fullmatch(r"vars\((.*)\)|(.*)\.__dict__", ast.unparse(node.value))
            if holder and is_private(node.slice.value):
                owner = holder[1] or holder[2]
                yield Use(node.lineno, node.slice.value, ast.unparse(node)), owner


@cache
def inside(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of a class, or of what else it is, without those of the classes in it."""
    found, left = [], [tree]
    while left:
        nodes = [
            each for each in ast.iter_child_nodes(left.pop()) if not isinstance(each, ast.ClassDef)
        ]
        found += nodes
        left += nodes
    return found


@cache
def own_names(tree: ast.ClassDef) -> set[str]:
    """Return the attributes that a class has: by its body, `__slots__`, or as `self` or `cls`."""
    found = set()
    for node in tree.body:
        if isinstance(node, Function):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = {name for target in targets(node) for name in names_in(target)}
            found |= names
            if "__slots__" in names and node.value is not None:
                slots = [each for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
                found |= {str(each.value) for each in slots}
    for each in inside(tree):
        is_assigned = isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        if is_assigned and dotted(each.value) in {"self", "cls"}:
            found.add(each.attr)
    return found


def targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def names_in(tree: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}


class Project:
    """The modules, and which class derives from which, also in another file."""

    def __init__(self, trees: Mapping[str, ast.Module], offered: Mapping[str, str]) -> None:
        """`offered`: for a class by its full name, what subclasses in other files may use."""
        self._trees = trees
        self._offered = offered
        self.usable = cache(self._usable)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {
            f"{module}.{node.name}": node
            for module, tree in self._trees.items()
            for node in all_nodes(tree)
            if isinstance(node, ast.ClassDef)
        }

    @cached_property
    def _imported(self) -> dict[str, dict[str, str]]:
        """For each module, what its imported names stand for."""
        found: dict[str, dict[str, str]] = {}
        for module, tree in self._trees.items():
            names = found[module] = {}
            for node in all_nodes(tree):
                if isinstance(node, ast.ImportFrom):
                    for each in node.names:
                        names[each.asname or each.name] = f"{node.module}.{each.name}"
                elif isinstance(node, ast.Import):
                    for each in node.names:
                        first = each.name.split(".")[0]
                        names[each.asname or first] = each.name if each.asname else first
        return found

    def _bases(self, name: str) -> Iterator[str]:
        """Yield the bases of a class that are classes of the project."""
        module = name.rpartition(".")[0]
        for base in self.classes[name].bases:
            found = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            found = f"{module}.{found}"
            while found not in self.classes:
                place = next((each for each in _prefixes(found) if each in self._trees), None)
                if place is None:
                    break
                first, dot, rest = found[len(place) + 1 :].partition(".")
                if first not in self._imported[place]:
                    break
                found = self._imported[place][first] + dot + rest
            else:
                yield found

    def _all_names(self, name: str) -> set[str]:
        """Return the attributes of a class and of all its bases."""
        return own_names(self.classes[name]).union(*map(self._all_names, self._bases(name)))

    def _offers(self, name: str) -> set[str]:
        """Return what a class and its bases offer to subclasses in other files."""
        return set(self._offered.get(name, "").split()).union(*map(self._offers, self._bases(name)))

    def _usable(self, name: str) -> set[str]:
        """Return what a class may use: its own, that of bases in its file, what others offer."""
        return own_names(self.classes[name]).union(
            *(
                self.usable(base) if _is_beside(base, name) else self._offers(base)
                for base in self._bases(name)
            )
        )

    @cached_property
    def private_of_others(self) -> list[tuple[str, Use]]:
        """Each use of a private attribute that is somebody else's, and the module it is in.

        Names decide: a variable's attribute is its own class's if the class has one of that name. A
        function outside of classes may use the private attributes of one class of its file.
        """
        return [(module, use) for module in self._trees for use in self._misused(module)]

    def _misused(self, module: str) -> Iterator[Use]:
        beside = [each for each in self.classes if each.rpartition(".")[0] == module]
        for name in beside:
            node = self.classes[name]
            for use, owner in private_uses(node):
                if use.name not in self.usable(name) or not _may_be_own(owner, node.name):
                    yield use
            for base in self._bases(name):
                if not _is_beside(base, name):
                    for each in own_names(node) & self._all_names(base) - self._offers(base):
                        if is_private(each):
                            yield Use(node.lineno, each, f"{node.name}.{each}, which {base} has")
        for node in self._trees[module].body:
            uses = [] if isinstance(node, ast.ClassDef) else [use for use, _ in private_uses(node)]
            names = {use.name for use in uses}
            if not any(names <= self.usable(each) for each in beside):
                yield from uses

    def offers_in_use(self) -> set[tuple[str, str]]:
        """Return what classes offer, and a subclass in another file uses or replaces."""
        found = set()
        for name, node in self.classes.items():
            used = own_names(node) | {use.name for use, _ in private_uses(node)}
            for base in self._bases(name):
                if not _is_beside(base, name):
                    found |= {(each, name) for each in self._lineage(base) for name in used}
        return found

    def _lineage(self, name: str) -> Iterator[str]:
        yield name
        for base in self._bases(name):
            yield from self._lineage(base)


def _is_beside(one: str, other: str) -> bool:
    """Whether two classes are in one file."""
    return one.rpartition(".")[0] == other.rpartition(".")[0]


def _prefixes(name: str) -> Iterator[str]:
    """Yield a dotted name without its last parts, the longest first."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _may_be_own(owner: str, own: str) -> bool:
    """Whether an expression may stand for the class `own` or an instance of it: any variable may.

    Another attribute's value does not, nor a call's.
    """
    return owner in {"super()", own} or owner.isidentifier()


def private_imports(found: Iterable[Import], modules: Collection[str]) -> Iterator[Use]:
    """Yield the imports of names that a module keeps for itself."""
    for each in found:
        inner = f"{each.module}.{each.name}" if each.name else each.module
        parts = [each.name] if each.module in modules else inner.split(".")
        if inner not in modules and any(map(is_private, parts)):
            yield Use(each.line, each.name, inner)


# --- what a module defines ------------------------------------------------------------------------


def defined(body: Iterable[ast.AST], imported: Collection[str]) -> set[str]:
    """Return the names that a module defines itself: neither imports, nor other names of such.

    `__getattr__`, which imports later, and `__all__` define nothing.
    """
    found, foreign = set(), {*imported}
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            names = {name for target in targets(node) for name in names_in(target)}
            (foreign if hands_on(node.value, foreign) else found).update(names)
        else:  # what is in the branches of `if`, `try` and the like
            found |= defined(ast.iter_child_nodes(node), foreign)
    return found - {"__getattr__", "__dir__", "__all__"}


def hands_on(value: ast.expr, imported: Collection[str]) -> bool:
    """Whether a value is what another module defines: a name of it, or taken from it by name."""
    while isinstance(value, ast.Attribute):
        value = value.value
    if isinstance(value, ast.Call):
        if last_name(value.func) == "getattr":
            return hands_on(value.args[0], imported)
        return imports_modules(value.func)
    return isinstance(value, ast.Name) and value.id in imported


@cache
def imported_names(tree: ast.AST) -> set[str]:
    """Return the names by which a module has what it imports."""
    return {
        (each.asname or each.name).split(".")[0]
        for node in all_nodes(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    }


def only_hands_on(tree: ast.Module) -> bool:
    """Whether a file has nothing of its own: just imports, other names for them, `__getattr__`."""
    return not defined(tree.body, imported_names(tree))


def listed_of_others(tree: ast.Module) -> set[str]:
    """Return the names in `__all__` that the module only imports."""
    listed = {
        name
        for node in tree.body
        if isinstance(node, ast.Assign) and "__all__" in names_in(node.targets[0])
        for name in ast.literal_eval(node.value)
    }
    return listed & imported_names(tree) - defined(tree.body, imported_names(tree))


def functions(tree: ast.AST) -> Iterator[Function]:
    for node in all_nodes(tree):
        if isinstance(node, Function):
            yield node


def length(node: Any) -> int:
    """Return how many lines a function has, its docstring among them."""
    return int(node.end_lineno - node.lineno + 1)
