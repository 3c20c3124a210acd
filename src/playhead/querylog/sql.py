"""Classifies SQL texts: whether they write, what they do to the transaction, whether they must run alone.

Only this module uses `pgparse`, PostgreSQL's own parser. A text that it cannot parse counts as writing: the syntax
of a newer server, another dialect, a text with NUL.
"""

import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from importlib import resources
from itertools import chain
from typing import Any, Final

from playhead.errors import MissingPiece
from playhead.querylog.reach import reach_of, tables_of, texts_run_by
from playhead.querylog.text_shape import ByShape, cached_if_short

_KEPT: Final = 16_384
LONGEST: Final = 1 << 20
"""Bytes of a text that is parsed; what is longer may write."""
# The parser looks through the rest of the text at the start of each comment.
_MOST_COMMENTS: Final = 1_000
# And at each sign of `+-+-+-` through the signs that follow.
_MOST_SIGNS: Final = 1_000
_SIGNS: Final = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
_SHORT: Final = 1 << 12
"""Longest text in characters whose tree fits into the stack of any thread."""
_STACK_OF_A_CHARACTER: Final = 1 << 10
"""Stack bytes per character; the parser uses up to 200. Unused stack takes no memory."""
_STACK_SIZES: Final = threading.Lock()
"""Held while the stack size of the next thread is set, which is a setting of the whole process."""


_Nodes = list[tuple[str, Any]]


class TransactionAct(Enum):
    """The effect of a text on the transaction of its session."""

    NONE = "none"
    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SEVERAL = "several"
    """Several statements, one of which begins or ends a transaction."""


@dataclass(frozen=True, slots=True)
class Understanding:
    """The properties of one text."""

    kinds: tuple[str, ...]
    """The parser's name of each statement, such as `SelectStmt`; empty if the text cannot be parsed."""
    is_understood: bool
    may_write: bool
    is_select_only: bool
    """Whether every statement is a query that changes nothing, not even its session."""
    acts: tuple[TransactionAct, ...]
    """The effect of each statement on the transaction."""
    leaves_open: bool | None
    """Whether a transaction is open after it; None if it changes nothing about that."""
    runs_alone: bool
    has_copy_data: bool
    """Whether it has COPY FROM STDIN, whose data is in no log."""
    parameters: int
    """The highest `$n` in it."""
    reaches: str | None
    """What it does beyond its database, in one word; None for nothing, or where it was not understood."""
    runs: tuple[str, ...] = ()
    """The texts that it runs as a program, decoded: bodies of DO and of functions, and what some functions run."""
    tables: frozenset[str] = frozenset()
    """The tables that it names, as `TABLE` and as `SCHEMA.TABLE`."""


_UNKNOWN: Final = Understanding(
    (),
    False,
    True,
    False,
    (),
    None,
    runs_alone=False,
    has_copy_data=False,
    parameters=0,
    reaches=None,
)
_UNDERSTOOD: Final = ByShape[Understanding]()
_ACTS: Final = {
    "TRANS_STMT_BEGIN": TransactionAct.BEGIN,
    "TRANS_STMT_START": TransactionAct.BEGIN,
    "TRANS_STMT_COMMIT": TransactionAct.COMMIT,
    "TRANS_STMT_ROLLBACK": TransactionAct.ROLLBACK,
    # PREPARE TRANSACTION detaches the transaction from the session.
    "TRANS_STMT_PREPARE": TransactionAct.COMMIT,
}
_ALONE: Final = frozenset(
    # DO and CALL may have transactions of their own.
    ("CreatedbStmt", "DropdbStmt", "AlterSystemStmt", "CreateTableSpaceStmt",
     "DropTableSpaceStmt", "CallStmt", "VacuumStmt", "CreateSubscriptionStmt",
     "DropSubscriptionStmt", "AlterSubscriptionStmt", "DoStmt")
)  # fmt: skip
_ALONE_IF_CONCURRENT: Final = frozenset(("IndexStmt", "ReindexStmt", "DropStmt", "ClusterStmt"))
_CHANGES_NOTHING: Final = frozenset(
    ("SelectStmt", "VariableShowStmt", "VariableSetStmt", "TransactionStmt", "FetchStmt",
     "ClosePortalStmt", "ExplainStmt", "DeclareCursorStmt", "PrepareStmt", "DeallocateStmt",
     "DiscardStmt", "ListenStmt", "UnlistenStmt", "CopyStmt", "ConstraintsSetStmt",
     "CheckPointStmt")
)  # fmt: skip
_WRITES_INSIDE: Final = frozenset(
    ("InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "intoClause", "lockingClause",
     "IntoClause", "LockingClause", "CreateTableAsStmt", "ExecuteStmt")
)  # fmt: skip
# Possessive quantifiers: backtracking over comments would take exponential time.
_FIRST: Final = re.compile(r"(?:[\s(]|--[^\n\r]*(?:[\n\r]|$)|/\*.*?\*/)*+([A-Za-z]+)", re.DOTALL)
_MANAGES: Final = frozenset(
    ("begin", "start", "commit", "end", "rollback", "abort", "prepare", "savepoint", "release")
)
_PLAIN_ACTS: Final = {
    "begin": (TransactionAct.BEGIN, True),
    "commit": (TransactionAct.COMMIT, False),
    "end": (TransactionAct.COMMIT, False),
    "rollback": (TransactionAct.ROLLBACK, False),
    "abort": (TransactionAct.ROLLBACK, False),
}


def may_write(text: str) -> bool:
    """Return whether it may change the database; True if that is uncertain."""
    return understand(text).may_write


def is_select_only(text: str) -> bool:
    """Return whether it certainly consists of queries only, whose replay can be skipped."""
    return understand(text).is_select_only


def transaction_act(text: str) -> TransactionAct:
    """Return the effect of the text on its transaction; savepoints have none."""
    word = first_word(text)
    if ";" not in text and word not in _MANAGES:
        return TransactionAct.NONE
    plain = _PLAIN_ACTS.get(text.strip().rstrip(";").lower())
    if plain is not None:
        return plain[0]
    known = understand(text)
    acts = [act for act in known.acts if act is not TransactionAct.NONE]
    if not acts:
        return TransactionAct.NONE
    return acts[0] if len(known.kinds) == 1 else TransactionAct.SEVERAL


def leaves_open(text: str, *, before: bool | None) -> bool | None:
    """Return whether a transaction is open after the text; None if it is unknown."""
    if ";" not in text and first_word(text) not in _MANAGES:
        return before
    plain = _PLAIN_ACTS.get(text.strip().rstrip(";").lower())
    if plain is not None:
        return plain[1]
    after = understand(text).leaves_open
    return before if after is None else after


def open_behind(before: bool | None, text: str, error: str | None) -> bool | None:
    """Return whether a transaction is open after a text that may have failed; None if it is unknown."""
    if error is None:
        return leaves_open(text, before=before)
    act = transaction_act(text)
    if act in (TransactionAct.COMMIT, TransactionAct.ROLLBACK):
        return False
    if act is TransactionAct.SEVERAL:
        return True if TransactionAct.BEGIN in understand(text).acts else before
    return before


def runs_alone(text: str) -> bool:
    """Return whether a server refuses it inside a transaction, or it has transactions of its own."""
    return understand(text).runs_alone


def first_word(text: str) -> str:
    """Return the first word after comments, in lower case."""
    found = _FIRST.match(text)
    return found[1].lower() if found else ""


@cached_if_short(_KEPT)
def normalized(text: str) -> str:
    """Return the text with `$1`, `$2` in place of its values; only its first word if it cannot be parsed."""
    try:
        return str(_parser().normalize(_parsable(text)))
    except _Unparsable:
        return f"(not understood: {first_word(text) or 'nothing'} …)"


def understand(text: str) -> Understanding:
    """Parse a text; one that cannot be parsed counts as writing."""
    return _UNDERSTOOD.get(text) or _parsed(text)


@cached_if_short(_KEPT)
def _parsed(text: str) -> Understanding:
    try:
        statements = _parser().parse(_parsable(text))
        known = _understood([_one_of(each["stmt"]) for each in statements])
    except (_Unparsable, RecursionError):
        return _UNKNOWN
    _UNDERSTOOD.keep(text, known)
    return known


class _Unparsable(Exception):
    """The text is too long for the parser, or cannot be parsed."""


class _Parser:
    """The functions of the parser; all its errors become `_Unparsable`."""

    def __init__(self) -> None:
        try:
            import pgparse
        except ImportError:
            raise MissingPiece(
                "pgparse", needed_for="a replay of queries", hint="pip install 'playhead[queries]'"
            ) from None
        self._module = pgparse

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)

        def call(text: str) -> Any:
            try:
                return _with_stack(function, text)
            except (self._module.PGQueryError, ValueError) as exc:
                raise _Unparsable from exc

        return call


@lru_cache(maxsize=1)
def _parser() -> _Parser:
    return _Parser()


def _with_stack(function: Callable[[str], Any], text: str) -> Any:
    """Call the parser in a thread whose stack fits the deepest possible tree of a text of this length.

    The tree of `1+1+1…` is as deep as the text is long. The parser recurses without a limit, which would end the
    process.
    """
    if len(text) <= _SHORT:
        return function(text)
    outcome: Future[Any] = Future()

    def work() -> None:
        try:
            outcome.set_result(function(text))
        except BaseException as exc:  # noqa: BLE001  # raised again below
            outcome.set_exception(exc)

    with _STACK_SIZES:
        before = threading.stack_size(len(text) * _STACK_OF_A_CHARACTER)
        try:
            threading.Thread(target=work, name="parser", daemon=True).start()
        except RuntimeError:  # there is no memory for the stack
            raise _Unparsable from None
        finally:
            threading.stack_size(before)
    return outcome.result()


def _parsable(text: str) -> str:
    # The parser's text ends at NUL, and what follows would not be seen.
    if "\0" in text or len(text) > LONGEST or text.count("/*") > _MOST_COMMENTS:
        raise _Unparsable
    if len(text) > _MOST_SIGNS and max(map(len, _SIGNS.findall(text)), default=0) > _MOST_SIGNS:
        raise _Unparsable
    return text


def _one_of(node: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    ((kind, content),) = node.items()
    return kind, content


def _understood(statements: list[tuple[str, Mapping[str, Any]]]) -> Understanding:
    acts = tuple(_act(kind, content) for kind, content in statements)
    inside = [_nodes(content) for _, content in statements]
    nodes = [*statements, *chain.from_iterable(inside)]
    writes = [_may_write(*each, below) for each, below in zip(statements, inside, strict=True)]
    return Understanding(
        kinds=tuple(kind for kind, _ in statements),
        is_understood=True,
        may_write=any(writes),
        is_select_only=bool(statements)
        and not any(writes)
        and all(kind in ("SelectStmt", "VariableShowStmt") for kind, _ in statements),
        acts=acts,
        leaves_open=_open_behind(statements, acts),
        runs_alone=any(_runs_alone(kind, content) for kind, content in statements),
        has_copy_data=any(
            kind == "CopyStmt" and bool(content.get("is_from")) and "filename" not in content
            for kind, content in statements
        ),
        parameters=_highest(nodes),
        reaches=reach_of(nodes),
        runs=tuple(texts_run_by(nodes)),
        tables=tables_of(nodes),
    )


def _act(kind: str, content: Mapping[str, Any]) -> TransactionAct:
    if kind != "TransactionStmt":
        return TransactionAct.NONE
    return _ACTS.get(content.get("kind", ""), TransactionAct.NONE)


def _open_behind(
    statements: list[tuple[str, Mapping[str, Any]]], acts: tuple[TransactionAct, ...]
) -> bool | None:
    is_open = None
    for (_, content), act in zip(statements, acts, strict=True):
        if act is not TransactionAct.NONE:
            is_open = act is TransactionAct.BEGIN or bool(content.get("chain"))
    return is_open


def _may_write(kind: str, content: Mapping[str, Any], inside: "_Nodes") -> bool:
    if kind not in _CHANGES_NOTHING:
        return True
    if kind == "TransactionStmt":
        return str(content.get("kind", "")).endswith("_PREPARED")
    if kind == "CopyStmt" and (content.get("is_from") or "filename" in content):
        return True
    if kind == "ExplainStmt" and not _analyzes(content):
        return False
    # PREPARE changes nothing before EXECUTE, which counts as writing.
    return kind != "PrepareStmt" and _writes_inside(inside)


def _analyzes(content: Mapping[str, Any]) -> bool:
    return any("analyze" in str(option).lower() for option in content.get("options", ()))


def _runs_alone(kind: str, content: Mapping[str, Any]) -> bool:
    if kind in _ALONE or content.get("target") == "DISCARD_ALL":
        return True
    if kind in _ALONE_IF_CONCURRENT:
        concurrent = bool(content.get("concurrent")) or "concurrently" in str(content.get("params"))
        whole = content.get("kind") in ("REINDEX_OBJECT_DATABASE", "REINDEX_OBJECT_SYSTEM")
        return concurrent or whole or kind == "ClusterStmt"
    return False


def _nodes(content: Any) -> _Nodes:
    """Return every name with its content, at any depth, except numbers and what is below them.

    Long texts are mostly lists of values.
    """
    found: _Nodes = []
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        for name, below in node.items() if isinstance(node, dict) else ():
            if isinstance(below, str):
                found.append((name, below))
            elif isinstance(below, dict | list) and not (name == "A_Const" and "sval" not in below):
                found.append((name, below))
                waiting.append(below)
    return found


def _writes_inside(nodes: _Nodes) -> bool:
    return any(
        name in _WRITES_INSIDE or (name == "FuncCall" and not _is_harmless(below))
        for name, below in nodes
    )


def _is_harmless(call: Mapping[str, Any]) -> bool:
    names = [part.get("String", {}).get("sval", "") for part in call.get("funcname", ())]
    if not names or (len(names) > 1 and names[:-1] != ["pg_catalog"]):
        return False
    return names[-1] in _harmless_functions()


@lru_cache(maxsize=1)
def _harmless_functions() -> frozenset[str]:
    """Return the functions of pg_catalog that change nothing: no function of the name is volatile, or it only reads."""
    listed = resources.files("playhead.querylog").joinpath("harmless_functions.txt")
    return frozenset(listed.read_text(encoding="utf-8").split())


def _highest(nodes: _Nodes) -> int:
    return max((below.get("number", 0) for name, below in nodes if name == "ParamRef"), default=0)
