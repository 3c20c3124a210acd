"""Makes logs of PostgreSQL as csvlog: so many sessions, so many statements in each, so many sessions at once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_ROW = (
    '{time} UTC,"app","app",{pid},"127.0.0.1:50000",{session:x}.{pid:x},{line},"{tag}",{start} UTC,'
    '3/9,0,LOG,00000,"{text}",,,,,,,,,"made","client backend",,0\n'
)


def write_log(file: Path, *, sessions: int, statements: int, at_once: int) -> None:
    """Write the log: sessions in groups that are open at the same time, whose statements take turns."""
    with file.open("w", encoding="utf-8") as out:
        now = _BEGIN
        for first in range(0, sessions, at_once):
            group = range(first, min(first + at_once, sessions))
            for line in range(statements + 2):
                for session in group:
                    now += timedelta(microseconds=100)
                    out.write(_row(now, session, line, is_last=line == statements + 1))


def _row(now: datetime, session: int, line: int, *, is_last: bool) -> str:
    if line == 0:
        tag, text = "authentication", "connection authorized: user=app database=app"
    elif is_last:
        tag, text = (
            "idle",
            "disconnection: session time: 0:00:01.000 user=app database=app host=127.0.0.1",
        )
    else:
        tag, text = "SELECT", f"duration: 0.050 ms  statement: SELECT {session} + {line} AS n"
    return _ROW.format(
        time=f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1_000:03}",
        start=f"{_BEGIN:%Y-%m-%d %H:%M:%S}",
        pid=10_000 + session,
        session=0x69_000_000 + session,
        line=line + 1,
        tag=tag,
        text=text,
    )
