"""Notes what the triggers of a SQLite database do to the rows of a table."""

import re
from collections.abc import Mapping

from playhead.tables.kept_rows import CHANGES, KeptRows
from playhead.tables.sql import named

# The function of this name replaces texts, not rows.
_REPLACES = re.compile(r"\bREPLACE\b(?!\s*\()", re.IGNORECASE)
_NO_KEYWORDS = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^]]*\]|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_TRIGGERS = "SELECT tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger'"
_FOLLOWED = (
    "SELECT 1 FROM main.sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table' "
    "AND f.\"table\" = $1 COLLATE NOCASE AND f.on_update NOT IN ('NO ACTION', 'RESTRICT') LIMIT 1"
)


class SqliteKeptRows(KeptRows):
    """Temporary triggers, which SQLite fires before others, note each change.

    None is fired for a row that the REPLACE of a trigger deletes.
    """

    def risks(self) -> tuple[bool, bool]:
        name = self.table.name
        triggers = self.session.run(_TRIGGERS)
        watches = any(of.lower() == name.lower() for of, _ in triggers)
        if triggers and self.table.rules.on_conflict == "update":
            # An update may reach the triggers of other tables, whose foreign keys follow it.
            watches |= bool(self.session.run(_FOLLOWED, (name,)))
        return watches, watches and any(_REPLACES.search(keywords(text)) for _, text in triggers)

    def note(self, changes: Mapping[str, str]) -> None:
        table, names = named(self.table.name), [*map(named, self.by)]
        moved = " OR ".join(f"old.{name} IS NOT new.{name}" for name in names)
        for change, row in changes.items():
            values = ", ".join([f"'{change}'", *(f"{row}.{name}" for name in names)])
            when = f"WHEN {moved or 0}" if change == "update" else ""
            noted = f"INSERT INTO {CHANGES} VALUES ({values})"  # noqa: S608 - quoted names
            self.session.run(
                f"CREATE TEMP TRIGGER playhead_{change} AFTER {change} ON main.{table} {when} "
                f"BEGIN {noted}; END"
            )

    def stop(self) -> None:
        for change in ("delete", "insert", "update"):
            self.session.run(f"DROP TRIGGER IF EXISTS temp.playhead_{change}")


def keywords(statement: str) -> str:
    """Return a statement without its texts, quoted names and comments."""
    return _NO_KEYWORDS.sub(" ", statement)
