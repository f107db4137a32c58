"""Makes the mutants of a Python file: copies of it with one small change each.

The operators are the usual ones (DeMillo's and Offutt's): comparisons, conditions, arithmetic,
constants, returns, deleted statements and dropped keyword arguments. cosmic-ray and mutmut have
them too, but cosmic-ray mutates annotations and brings 13 packages, and mutmut writes all mutants
of a file into one module.

No mutants are made of code that no test can or should see:

- annotations, `if TYPE_CHECKING`, docstrings, `__all__`, `__slots__`, the type in `cast`, and
  functions without a body (overloads, protocols);
- asserts, which are there for the type checker;
- the texts of exceptions, warnings and log lines, f-strings, and `__repr__`: the tests match what
  matters in a text, not its words.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_BUILT_IN_TYPES = {"int", "str", "bytes", "float", "list", "dict"}
_LOGGERS = {"_log", "logging", "warnings"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Mutant(NamedTuple):
    """One change of one file."""

    file: str
    line: int
    column: int
    operator: str
    before: str
    """The first line of the changed code, and the same line of the mutant."""
    after: str
    in_function: bool
    """Whether the change is in a function's body, so that importing the file does not run it."""
    source: str
    """The whole mutated file, with as many lines as the original."""

    @property
    def id(self) -> str:
        """The same for the same change of the same file."""
        return f"{self.file}:{self.line}:{self.column}:{self.operator}"


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    tree = ast.parse(source)
    found = {}
    for node, in_function in _mutable(tree, in_function=False):
        for operator, place, text in _changes(node):
            mutant = _mutant(file, source, (operator, place, text), in_function=in_function)
            if mutant.source != source and _compiles(mutant.source):
                found[mutant.id] = mutant
    return sorted(found.values(), key=lambda mutant: (mutant.line, mutant.column, mutant.operator))


def code_lines(source: str) -> int:
    """Count the lines that have code: no blank lines, comments or docstrings."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr | ast.stmt | ast.arg) and not _is_docstring(node):
            lines.add(node.lineno)
            lines.add(node.end_lineno or node.lineno)
    for node in ast.walk(ast.parse(source)):
        if _is_docstring(node):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _is_docstring(node: ast.AST) -> TypeGuard[ast.Expr]:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _mutable(node: ast.AST, *, in_function: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Give the nodes that may change, and whether each is in a function's body."""
    yield node, in_function
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        inside = in_function or (isinstance(node, _FUNCTIONS) and name == "body")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_excluded(child):
                if isinstance(node, ast.Raise) or _is_logging(node):
                    yield from _without_texts(child, in_function=inside)
                else:
                    yield from _mutable(child, in_function=inside)


def _without_texts(node: ast.AST, *, in_function: bool) -> Iterator[tuple[ast.AST, bool]]:
    for each, inside in _mutable(node, in_function=in_function):
        if not (isinstance(each, ast.Constant) and isinstance(each.value, str)):
            yield each, inside


def _is_excluded(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assert() | ast.JoinedStr():
            return True
        case ast.FunctionDef(name="__repr__"):
            return True
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
            return all(_is_docstring(each) or _is_ellipsis(each) for each in body)
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.Call(func=ast.Name(id="cast" | "TypeVar" | "ParamSpec")):
            return True
    return _is_docstring(node)


def _is_ellipsis(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_logging(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name in _LOGGERS
    return False


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """Give operator, the node that is replaced, and the text that replaces it."""
    for test in _conditions(node):
        if not _has_an_inverse(test):
            yield "condition", test, f"(not ({ast.unparse(test)}))"
    if isinstance(node, ast.stmt):
        yield from _statements(node)
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and-or", node, f"({ast.unparse(ast.BoolOp(op=other, values=node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node, f"({ast.unparse(node.operand)})"
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _ARITHMETIC:
            yield from _arithmetic(node, _ARITHMETIC[type(op)]())
        case ast.Constant():
            yield from _constants(node)
        case ast.Call():
            yield from _dropped_keywords(node)


def _arithmetic(
    node: ast.BinOp | ast.AugAssign, op: ast.operator
) -> Iterator[tuple[str, ast.AST, str]]:
    if isinstance(node, ast.AugAssign):
        yield "arithmetic", node, ast.unparse(ast.AugAssign(node.target, op, node.value))
    elif not _is_union(node):
        yield "arithmetic", node, f"({ast.unparse(ast.BinOp(node.left, op, node.right))})"


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return [test]
        case ast.comprehension(ifs=tests):
            return tests
    return []


def _comparisons(node: ast.Compare) -> Iterator[tuple[str, ast.AST, str]]:
    for index, op in enumerate(node.ops):
        ops = [*node.ops[:index], _COMPARISONS[type(op)](), *node.ops[index + 1 :]]
        changed = ast.Compare(left=node.left, ops=ops, comparators=node.comparators)
        yield f"compare{index or ''}", node, f"({ast.unparse(changed)})"


def _has_an_inverse(test: ast.expr) -> bool:
    """Whether another operator negates this condition already, or it is constant."""
    match test:
        case ast.UnaryOp(op=ast.Not()) | ast.Constant():
            return True
        case ast.Compare(ops=[op]):
            return isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn)
    return False


def _is_union(node: ast.BinOp) -> bool:
    """Whether it is a union of types, `int | None`: with any other operator it raises."""

    def is_type(side: ast.expr) -> bool:
        match side:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name[:1].isupper() or name in _BUILT_IN_TYPES
            case ast.Constant(value=None):
                return True
            case ast.BinOp():
                return _is_union(side)
        return isinstance(side, ast.Subscript) and is_type(side.value)

    return isinstance(node.op, ast.BitOr) and is_type(node.left) and is_type(node.right)


def _constants(node: ast.Constant) -> Iterator[tuple[str, ast.AST, str]]:
    match node.value:
        case bool():
            yield "constant", node, repr(not node.value)
        case int() | float():
            yield "number", node, repr(node.value + 1)
        case str():
            yield "string", node, repr("XX" + node.value)
        case bytes():
            yield "string", node, repr(b"XX" + node.value)


def _dropped_keywords(node: ast.Call) -> Iterator[tuple[str, ast.AST, str]]:
    if _is_logging(node):
        return
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            rest = [*node.keywords[:index], *node.keywords[index + 1 :]]
            changed = ast.Call(func=node.func, args=node.args, keywords=rest)
            yield f"keyword-{keyword.arg}", node, ast.unparse(changed)


def _statements(node: ast.stmt) -> Iterator[tuple[str, ast.AST, str]]:
    match node:
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and not value.value):
                yield "return", node, "return None"
        case (
            ast.Expr(value=ast.Await(value=ast.Call() as call)) | ast.Expr(value=ast.Call() as call)
        ):
            if not _is_logging(call):
                yield "delete", node, "pass"
        case ast.Raise() | ast.Delete() | ast.AugAssign():
            yield "delete", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield "delete", node, "pass"
        case ast.Break():
            yield "loop", node, "continue"
        case ast.Continue():
            yield "loop", node, "break"


def _mutant(
    file: str, source: str, change: tuple[str, ast.AST, str], *, in_function: bool
) -> Mutant:
    operator, place, text = change
    lines = source.encode().splitlines(keepends=True)
    first, last = place.lineno - 1, place.end_lineno - 1  # type: ignore[attr-defined]
    begin, end = place.col_offset, place.end_col_offset  # type: ignore[attr-defined]
    new = text.encode()
    if last > first:  # as many lines as before: the places of all other code stay
        newlines = b"\n" * (last - first)
        new = new + newlines if isinstance(place, ast.stmt) else b"(" + new + newlines + b")"
    changed = lines[first][:begin] + new + lines[last][end:]
    mutated = b"".join([*lines[:first], changed, *lines[last + 1 :]]).decode()
    return Mutant(
        file=file,
        line=first + 1,
        column=begin,
        operator=operator,
        before=source.splitlines()[first],
        after=mutated.splitlines()[first],
        in_function=in_function,
        source=mutated,
    )


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
