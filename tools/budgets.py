"""Refuses functions and modules that have grown past what can be kept in one's head.

No function over 60 lines or six parameters, 90 % of them under 40 lines, the median about 10; no module
over 400 lines, or 650 of tests. Docstrings count: a page of explanation is a sign too.
"""

import ast
import statistics
import sys
from pathlib import Path

LONGEST_FUNCTION, LONG_FUNCTION, MEDIAN_FUNCTION = 60, 40, 14
MOST_PARAMETERS = 6
LONGEST_MODULE = 400
# A test's module is a list of cases, and its parameters are fixtures and draws.
LONGEST_TEST_MODULE = 650


def functions_of(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Parameters a caller gives; a command's options are its face, not a caller's burden."""
    made_by = [each.func for each in function.decorator_list if isinstance(each, ast.Call)]
    if any(isinstance(maker, ast.Name) and maker.id == "command" for maker in made_by):
        return 0
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len([argument for argument in given if argument.arg not in ("self", "cls")])


def complaints_about(path: Path, lengths: list[int]) -> list[str]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = []
    is_test = path.parts[0] == "tests"
    most = LONGEST_TEST_MODULE if is_test else LONGEST_MODULE
    if len(text.splitlines()) > most:
        found.append(f"{path}: {len(text.splitlines())} lines, at most {most}")
    if ast.get_docstring(tree) is None and text.strip():
        found.append(f"{path}: no opening sentence")
    for function in functions_of(tree):
        lengths.append(lines_of(function))
        if lengths[-1] > LONGEST_FUNCTION:
            found.append(f"{path}:{function.lineno}: {function.name} has {lengths[-1]} lines")
        if not is_test and parameters_of(function) > MOST_PARAMETERS:
            found.append(f"{path}:{function.lineno}: {function.name} has too many parameters")
    return found


def main() -> None:
    lengths: list[int] = []
    found = [
        complaint
        for root in sys.argv[1:]
        for path in sorted(Path(root).rglob("*.py"))
        for complaint in complaints_about(path, lengths)
    ]
    median = statistics.median(lengths)
    p90 = statistics.quantiles(lengths, n=10)[-1]
    if median > MEDIAN_FUNCTION:
        found.append(f"the median function has {median} lines, at most {MEDIAN_FUNCTION}")
    if p90 > LONG_FUNCTION:
        found.append(f"one function in ten has {p90} lines or more, at most {LONG_FUNCTION}")
    if found:
        sys.exit("\n".join(found))
    print(f"budgets kept: {len(lengths)} functions, median {median:g} lines, p90 {p90:g}")


if __name__ == "__main__":
    main()
