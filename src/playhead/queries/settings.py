"""Tracks the settings and prepared statements of a session, to restore them on a new connection."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from playhead.queries.sql_text import Part, SqlText
from playhead.queries.sql_tokens import tokens_of
from playhead.querylog.sql import may_write
from playhead.querylog.text_shape import shape_of

_NAME: Final = r'("(?:[^"]|"")*"|[\w.$]+)'
_SET: Final = re.compile(rf"(?:RE)?SET\s+(?:SESSION\s+)?{_NAME}\s*(?:=|TO\b|$)", re.IGNORECASE)
_PREPARED: Final = re.compile(
    rf"(?:PREPARE|DEALLOCATE(?:\s+PREPARE)?)\s+{_NAME}(?!\w)", re.IGNORECASE
)
_SAVEPOINT: Final = re.compile(rf"(?:SAVEPOINT|.*\bTO(?:\s+SAVEPOINT)?)\s+{_NAME}", re.IGNORECASE)
_SET_CONFIG: Final = re.compile(r"\bset_config\b", re.IGNORECASE)
_OF_CALL: Final = re.compile(r"\bset_config\s*\(\s*'([^']*)'", re.IGNORECASE)
_OF_TRANSACTION: Final = ("LOCAL", "TRANSACTION", "CONSTRAINTS")


class Change(NamedTuple):
    """One change of a session's settings or prepared statements."""

    kind: str
    """`set`, `prepare`, `deallocate`, `discard`, `savepoint`, `back`."""
    name: str
    text: str


def changes_of(sql: SqlText, parameters: Sequence[str | None] | None) -> tuple[Change, ...]:
    """Return the changes that the statements of a text make in their session, as texts without parameters."""
    if shape_of(sql.text) is not None:
        return ()  # Texts that set something have no shape.
    return tuple(
        change for part in sql.parts if (change := change_of(sql, part, parameters)) is not None
    )


def change_of(sql: SqlText, part: Part, parameters: Sequence[str | None] | None) -> Change | None:
    """Return what one statement changes in its session; None for nothing, or if it does more than that."""
    text = sql.text[part.start : part.end].strip()
    first, second = (*part.words, "", "")[:2]
    if first == "SAVEPOINT" or (first in ("ROLLBACK", "ABORT") and "TO" in part.words[1:3]):
        return Change("savepoint" if first == "SAVEPOINT" else "back", _found(_SAVEPOINT, text), "")
    if first in ("SET", "RESET") and second not in _OF_TRANSACTION:
        return Change("set", _found(_SET, text) or text, text)
    if first in ("LISTEN", "UNLISTEN", "LOAD"):
        return Change("set", text, text)
    if first == "DISCARD":
        return Change("discard", "", text) if second == "ALL" else None
    if first in ("PREPARE", "DEALLOCATE") and second != "TRANSACTION":
        return Change(first.lower(), _found(_PREPARED, text), text)
    if first == "SELECT" and _is_only_set_config(text):
        names = ",".join(_OF_CALL.findall(text))
        return Change("set", names or text, _with_values(text, parameters or ()))
    return None


def _found(pattern: "re.Pattern[str]", text: str) -> str:
    """Return the name in a text, folded as PostgreSQL does; empty if there is none."""
    found = pattern.match(text)
    if found is None:
        return ""
    name = found[1]
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _is_only_set_config(text: str) -> bool:
    """Return whether it only calls set_config, so that it can be sent again."""
    if _SET_CONFIG.search(text) is None:
        return False
    return not may_write(_SET_CONFIG.sub("current_setting", text))


def _with_values(text: str, parameters: Sequence[str | None]) -> str:
    pieces, at = [], 0
    for token in tokens_of(text):
        if token["parameter"] and int(token[0][1:]) <= len(parameters):
            pieces += [text[at : token.start()], _literal(parameters[int(token[0][1:]) - 1])]
            at = token.end()
    return "".join([*pieces, text[at:]])


def _literal(value: str | None) -> str:
    if value is None:
        return "NULL"
    return " E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


@dataclass(slots=True)
class Settings:
    """The settings of one session, also in its open transaction."""

    prepared: dict[str, str] = field(default_factory=dict)
    """The texts of PREPARE by name."""
    _lasting: dict[str, str] = field(default_factory=dict)
    _open: list[Change] = field(default_factory=list)
    """The changes of the open transaction."""

    def note(self, changes: Sequence[Change]) -> None:
        self._open += changes

    def forget_transaction(self) -> None:
        """Forget the open transaction, which is played again from its beginning."""
        self._open.clear()

    def end(self, *, is_undone: bool) -> None:
        """End the transaction; prepared statements stay even if it is rolled back."""
        for change in self._left():
            match change.kind:
                case "discard":
                    self._lasting.clear()
                    self.prepared.clear()
                case "prepare":
                    self.prepared[change.name] = change.text
                case "deallocate" if change.name == "all":
                    self.prepared.clear()
                case "deallocate":
                    self.prepared.pop(change.name, None)
                case _ if not is_undone:
                    # The order of the last changes is kept, because one may depend on another.
                    self._lasting.pop(change.name, None)
                    self._lasting[change.name] = change.text
        self._open.clear()

    def _left(self) -> Iterator[Change]:
        """Yield the changes that no ROLLBACK TO has undone."""
        left: list[Change | None] = []
        undoable: list[int] = []  # The places in `left` that a ROLLBACK TO may clear.
        savepoints: dict[str, list[int]] = {}
        for change in self._open:
            if change.kind == "back":
                kept = savepoints.get(change.name) or undoable[-1:]
                # Each place is cleared once, so that a long transaction takes no quadratic time.
                while undoable and undoable[-1] != kept[-1]:
                    place = undoable.pop()
                    gone, left[place] = left[place], None
                    if gone is not None and gone.kind == "savepoint":
                        savepoints[gone.name].pop()
                continue
            if change.kind == "savepoint":
                savepoints.setdefault(change.name, []).append(len(left))
            if change.kind in ("set", "savepoint"):
                undoable.append(len(left))
            left.append(change)
        return (each for each in left if each is not None and each.kind != "savepoint")

    def texts(self) -> list[str]:
        """Return the texts that restore the state on a new connection."""
        return [*self._lasting.values(), *self.prepared.values()]
