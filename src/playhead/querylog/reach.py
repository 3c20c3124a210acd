"""Finds what a statement does beyond its database, with PostgreSQL's own parser.

A second net behind the one that reads words (`queries.outside`): comments, quotes and escapes cannot hide a
statement from the parser. It does not look into the texts of bodies and of EXECUTE; it gives them, decoded, to the
other one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

LEDGER: Final = "ledger"
LEDGER_SCHEMA: Final = "playhead_ledger"
FUNCTION_ELSEWHERE: Final = re.compile(
    r"dblink.*|lo_import|lo_export|pg_(?:read_(?:binary_)?file|write_file|file_\w+|ls_\w+|stat_file|(?:terminate|cancel)_backend"
    r"|reload_conf|rotate_logfile\w*|logfile_rotate|promote|switch_wal|create_restore_point|\w*replication_slot\w*"
    r"|logical_slot_\w+|replication_origin_\w+|(?:start_|stop_)?backup(?:_start|_stop)?|wal_replay_\w+)"
)
"""Functions that reach the server's files and processes, or other servers."""
RUNS_TEXTS: Final = re.compile(
    r"(?:query|cursor)_to_xml\w*|ts_stat|ts_rewrite|crosstab\w*|xpath_table|connectby"
)
"""Functions that run the text which they are given."""
TRUSTED_LANGUAGES: Final = ("sql", "plpgsql", "plperl", "pltcl", "plv8")
UNLOCKS: Final = "allow_system_table_mods"
"""The setting with which a superuser empties, renames and alters catalogs."""
_STATEMENTS: Final = {
    "AlterSystemStmt": "alter-system",
    **dict.fromkeys(
        ("CreateRoleStmt", "AlterRoleStmt", "AlterRoleSetStmt", "DropRoleStmt", "GrantRoleStmt",
         "ReassignOwnedStmt", "DropOwnedStmt"), "role",
    ),
    **dict.fromkeys(
        ("CreatedbStmt", "AlterDatabaseStmt", "AlterDatabaseSetStmt", "AlterDatabaseRefreshCollStmt",
         "DropdbStmt", "CreateTableSpaceStmt", "AlterTableSpaceOptionsStmt", "DropTableSpaceStmt"), "database",
    ),
    **dict.fromkeys(
        ("CreateSubscriptionStmt", "AlterSubscriptionStmt", "DropSubscriptionStmt", "CreateFdwStmt",
         "AlterFdwStmt", "CreateForeignServerStmt", "AlterForeignServerStmt", "CreateForeignTableStmt",
         "ImportForeignSchemaStmt", "CreatePLangStmt", "LoadStmt",
         "CreateExtensionStmt", "AlterExtensionStmt", "AlterExtensionContentsStmt"), "elsewhere",
    ),
}  # fmt: skip
_OBJECTS: Final = {
    "OBJECT_ROLE": "role",
    "OBJECT_DATABASE": "database",
    "OBJECT_TABLESPACE": "database",
    "OBJECT_SUBSCRIPTION": "elsewhere",
    "OBJECT_FOREIGN_SERVER": "elsewhere",
    "OBJECT_FDW": "elsewhere",
    "OBJECT_LANGUAGE": "elsewhere",
}
"""What is renamed, dropped, or gets another owner."""
CATALOGS: Final = {
    **dict.fromkeys(
        ("pg_authid", "pg_auth_members", "pg_db_role_setting", "pg_parameter_acl", "pg_group"), "role"
    ),
    **dict.fromkeys(("pg_database", "pg_tablespace"), "database"),
    **dict.fromkeys(
        ("pg_proc", "pg_language", "pg_subscription", "pg_foreign_server", "pg_foreign_data_wrapper",
         "pg_foreign_table", "pg_replication_origin",
         # What they contain names a function that is called.
         "pg_operator", "pg_cast", "pg_aggregate", "pg_type", "pg_trigger", "pg_event_trigger", "pg_am",
         "pg_amproc", "pg_conversion", "pg_range", "pg_transform", "pg_ts_parser", "pg_ts_template",
         "pg_rewrite", "pg_attrdef",
         # By another name, a catalog or the ledger is not recognised.
         "pg_class", "pg_namespace"),
        "elsewhere",
    ),
}  # fmt: skip
_CHANGES: Final = ("InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt")
_CALLED_LATER: Final = ("DefineStmt", "CreateCastStmt", "AlterObjectSchemaStmt")
"""Statements that name a function, which an operator, an aggregate or a cast calls, or which moves."""
_GRANTED: Final = {
    "OBJECT_PARAMETER_ACL": "role",
    "OBJECT_DATABASE": "database",
    "OBJECT_TABLESPACE": "database",
    "OBJECT_FOREIGN_SERVER": "elsewhere",
    "OBJECT_FDW": "elsewhere",
}
_MAY_NAME_LEDGER: Final = ("SelectStmt", "InsertStmt", "ExplainStmt")


def is_beyond(function: str) -> bool:
    """Return whether a function reaches beyond the database, or runs a text that may."""
    return bool(FUNCTION_ELSEWHERE.fullmatch(function) or RUNS_TEXTS.fullmatch(function))


def reach_of(nodes: Iterable[tuple[str, Any]]) -> str | None:
    """Return a word for the first node of a text that acts beyond the database; None if there is none."""
    names_ledger = changes = False
    for name, below in nodes:
        if isinstance(below, dict):
            found = _of_node(name, below)
            if found is not None:
                return found
            changes |= name[:1].isupper() and name.endswith("Stmt") and name not in _MAY_NAME_LEDGER
        elif isinstance(below, str) and below.lower() == UNLOCKS:
            return "elsewhere"
        names_ledger |= below == LEDGER_SCHEMA
    return LEDGER if names_ledger and changes else None


def texts_run_by(nodes: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield the texts that DO, bodies of functions and functions of `RUNS_TEXTS` run, as the server decodes them."""
    nodes = [*nodes]
    if any(RUNS_TEXTS.fullmatch(each) for name, below in nodes for each in _calls(name, below)):
        # Its text can be in any place of the statement.
        yield from (below for name, below in nodes if name == "sval" and isinstance(below, str))
        return
    for name, below in nodes:
        if name in ("DoStmt", "CreateFunctionStmt"):
            yield from _texts_below(below)


def _texts_below(node: Any) -> Iterator[str]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("sval"), str):
                yield node["sval"]
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _calls(name: str, below: Any) -> Iterator[str]:
    """Yield the functions that a node calls, or may call: `a.f` and `(a).f` are `f(a)` if `a` has no field `f`."""
    if name == "FuncCall":
        yield _last(below.get("funcname"))
    elif name == "ColumnRef":
        yield from map(_text, (below.get("fields") or ())[1:])
    elif name == "A_Indirection":
        yield from map(_text, below.get("indirection") or ())


def _of_node(name: str, below: Mapping[str, Any]) -> str | None:
    if name in _STATEMENTS:
        return _STATEMENTS[name]
    if name == "CopyStmt":
        return "copy-elsewhere" if below.get("filename") or below.get("is_program") else None
    if any(FUNCTION_ELSEWHERE.fullmatch(each) for each in _calls(name, below)):
        return "elsewhere"
    if name in _CALLED_LATER:
        named = any(is_beyond(each) for each in _texts_below(below))
        return "elsewhere" if named else None
    if name == "AlterTableCmd":  # The options of a foreign table name its file or program.
        return "elsewhere" if below.get("subtype") == "AT_GenericOptions" else None
    if name in ("CreateFunctionStmt", "DoStmt"):
        options = below.get("options") or below.get("args") or ()
        return "elsewhere" if any(_is_untrusted(each) for each in options) else None
    if name == "GrantStmt":
        return _GRANTED.get(str(below.get("objtype")))
    if name == "ViewStmt":  # What is written into a view of one table goes into the table.
        sources = below.get("query", {}).get("SelectStmt", {}).get("fromClause") or []
        return _catalog(*sources[0].values()) if len(sources) == 1 else None
    if name == "RenameStmt" and any(is_beyond(each) for each in _texts_below(below)):
        return "elsewhere"
    if name in ("RenameStmt", "DropStmt", "AlterOwnerStmt"):
        kind = below.get("renameType") or below.get("removeType") or below.get("objectType")
        return _OBJECTS.get(str(kind))
    if name in _CHANGES:
        return _catalog(below.get("relation"))
    return None


def _catalog(table: Any) -> str | None:
    """Return what a table holds, if it is a catalog of more than the database's own rows."""
    table = table or {}
    is_catalog = table.get("schemaname") in (None, "pg_catalog")
    return CATALOGS.get(str(table.get("relname"))) if is_catalog else None


def _is_untrusted(option: Any) -> bool:
    element = option.get("DefElem", {}) if isinstance(option, dict) else {}
    if element.get("defname") != "language":
        return False
    return _text(element.get("arg")) not in TRUSTED_LANGUAGES


def _last(names: Any) -> str:
    return _text(names[-1]) if names else ""


def _text(node: Any) -> str:
    return str(node.get("String", {}).get("sval", "")) if isinstance(node, dict) else ""


def tables_of(nodes: Iterable[tuple[str, Any]]) -> frozenset[str]:
    """Return the tables that a text names, as `TABLE` and as `SCHEMA.TABLE`; without names of WITH."""
    found, own = set[str](), set[str]()
    for name, below in nodes:
        if name == "ctename":
            own.add(str(below))
        elif name == "DropStmt":
            found.update(".".join(_names_of(each)[-2:]) for each in below.get("objects") or ())
        elif isinstance(below, dict) and "relname" in below:
            schema = below.get("schemaname")
            found.add(f"{schema}.{below['relname']}" if schema else str(below["relname"]))
    found -= own
    return frozenset(found | {each.rpartition(".")[2] for each in found})


def _names_of(node: Any) -> list[str]:
    items = node.get("List", {}).get("items", ()) if isinstance(node, dict) else ()
    return [_text(each) for each in items]
