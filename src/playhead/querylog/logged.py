"""Parses the text of a single log row into an act of its session."""

import re
from enum import Enum
from typing import Final, NamedTuple

from playhead.querylog.rows import LogRow
from playhead.querylog.text_shape import cached_if_short


class Kind(Enum):
    """The kinds of rows."""

    STATEMENT = "statement"
    EXECUTE = "execute"
    FETCH = "fetch"
    PARSE = "parse"
    BIND = "bind"
    FASTPATH = "fastpath"
    DURATION = "duration"
    """A duration without a text."""
    RECEIVED = "received"
    """A process for a client has begun; a session may follow or not."""
    AUTHORIZED = "authorized"
    CONNECTION = "connection"
    """Another row about the beginning or end of a connection."""
    DISCONNECTION = "disconnection"
    TRANSLATED = "translated"
    """A statement or a connection in another language than English, under the same severity."""
    OTHER = "other"


class Logged(NamedTuple):
    """The parts of a row's text."""

    kind: Kind
    sql: str = ""
    name: str = ""
    portal: str = ""
    duration_us: int | None = None


_DURATION: Final = re.compile(r"duration: (\d{1,15})\.(\d{3}) ms(?:  (.*))?", re.DOTALL)
_EXTENDED: Final = re.compile(r"(execute fetch from|execute|parse|bind) (.*?): (.*)", re.DOTALL)
_KINDS: Final = {
    "execute": Kind.EXECUTE,
    "execute fetch from": Kind.FETCH,
    "parse": Kind.PARSE,
    "bind": Kind.BIND,
}
_STATEMENT: Final = "statement: "
_FASTPATH: Final = "fastpath function call: "
_UNNAMED: Final = "<unnamed>"
_OF_CONNECTIONS: Final = (
    ("connection authorized: ", Kind.AUTHORIZED),
    ("disconnection: session time: ", Kind.DISCONNECTION),
    ("connection received: ", Kind.RECEIVED),
    ("connection authenticated: ", Kind.CONNECTION),
    ("connection ready: ", Kind.CONNECTION),
    ("replication connection authorized: ", Kind.CONNECTION),
    ("unexpected EOF on client connection", Kind.CONNECTION),
    ("could not receive data from client: ", Kind.CONNECTION),
    ("could not send data to client: ", Kind.CONNECTION),
)
_OTHER: Final = Logged(Kind.OTHER)
_TRANSLATED: Final = (
    "Anweisung: ", "Ausführen ", "Fastpath-Funktionsaufruf: ", "Verbindung ", "Verbindungsende: ",
    "instruction : ", "exécute ", "appel de fonction fastpath : ", "connexion ", "déconnexion : ",
    "sentencia: ", "ejecutar ", "llamada a función fastpath: ", "conexión ", "desconexión: ",
    "istruzione: ", "esecuzione di ", "chiamata funzione fastpath: ", "connessione ", "disconnessione: ",
    "文: ", "実行 ", "取り出し実行 ", "近道関数呼び出し: ", "接続を", "接続の",
    "comando: ", "executar ", "chamada fastpath de função: ", "conexão ", "desconexão: ",
    "ifade: ", "çalıştır ", "bağlantı ", "příkaz: ", "spuštění ", "spojení ", "odpojení: ",
)  # fmt: skip
"""What rows begin with in the languages that leave LOG as it is: German, French, Spanish, Italian, Japanese,
Portuguese, Turkish, Czech."""
_TRANSLATED_DURATION: Final = re.compile(
    r"[^\W\d_][^\d:\n]{1,30}: \d{1,15}\.\d{3} [^\W\d_]{1,15}(?:[ ,].*)?", re.DOTALL
)
"""Any word in front of milliseconds."""
_STARTS: Final = (
    "starting PostgreSQL ",
    "all server processes terminated; reinitializing",
    "database system was shut down",
    "database system was interrupted",
    "database system shutdown was interrupted",
)
"""The rows of a server's start, also after a crash. Version 11 and older have only the last three."""


_SHUTS_DOWN: Final = "shutting down"
CANCELED: Final = "canceling statement due to user request"
UNKNOWN_SQLSTATE: Final = "?????"
"""An error of the source whose SQLSTATE the log does not have (stderr without %e)."""
_SQLSTATES: Final = {
    CANCELED: "57014",
    "canceling statement due to statement timeout": "57014",
    "canceling statement due to lock timeout": "55P03",
    "deadlock detected": "40P01",
    "could not serialize access due to concurrent update": "40001",
    "could not serialize access due to concurrent delete": "40001",
    "could not serialize access due to read/write dependencies among transactions": "40001",
    "terminating connection due to administrator command": "57P01",
}
"""Of errors that depend on the moment, by their messages."""


def sqlstate_of(row: LogRow) -> str:
    """Return the SQLSTATE of an error, where the log has none by its message."""
    return row.sqlstate or _SQLSTATES.get(row.message, UNKNOWN_SQLSTATE)


def ends_server(row: LogRow) -> bool:
    """Whether a row that is of no session says that the server shuts down, when all sessions have ended."""
    return row.severity == "LOG" and row.message == _SHUTS_DOWN


def starts_server(row: LogRow) -> bool:
    """Return whether a row without a session shows a start of the server, which ends all earlier sessions."""
    return row.severity == "LOG" and row.message.startswith(_STARTS)


def logged_in(message: str) -> Logged:
    """Parse the text of a LOG row."""
    if message.startswith("duration: "):
        found = _DURATION.fullmatch(message)
        if found is None:
            return _OTHER
        duration_us = int(found[1]) * 1_000 + int(found[2])
        if found[3] is None:
            return Logged(Kind.DURATION, duration_us=duration_us)
        return _with_text(found[3])._replace(duration_us=duration_us)
    return _with_text(message)


def _with_text(message: str) -> Logged:
    if message.startswith(_STATEMENT):
        return Logged(Kind.STATEMENT, message[len(_STATEMENT) :])
    if message.startswith(("execute ", "parse ", "bind ")):
        found = _EXTENDED.fullmatch(message)
        if found is not None:
            name, portal = _names(found[2])
            return Logged(_KINDS[found[1]], found[3], name, portal)
    if message.startswith(_FASTPATH):
        return Logged(Kind.FASTPATH, message[len(_FASTPATH) :])
    for beginning, kind in _OF_CONNECTIONS:
        if message.startswith(beginning):
            return Logged(kind)
    is_translated = message.startswith(_TRANSLATED) or _TRANSLATED_DURATION.fullmatch(message)
    return Logged(Kind.TRANSLATED) if is_translated else _OTHER


@cached_if_short(1_024)
def _names(text: str) -> tuple[str, str]:
    """Return the names of statement and portal; unnamed ones are empty."""
    if text.startswith(_UNNAMED):
        return "", text[len(_UNNAMED) + 1 :]
    name, _, portal = text.partition("/")
    return name, portal
