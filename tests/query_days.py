"""A short day on one server, played on another: two databases that begin alike, and the log of the first."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg import pq

from tests.postgres_pair import Postgres

Playhead = Callable[..., "subprocess.CompletedProcess[str]"]


class Client:
    """A session that sends texts as they are, and minds no error."""

    def __init__(self, url: str) -> None:
        self.pg = pq.PGconn.connect(url.encode())
        assert self.pg.status == pq.ConnStatus.OK, self.pg.get_error_message()

    def run(self, *texts: str) -> "Client":
        for text in texts:
            self.pg.exec_(text.encode())
        return self

    def bound(self, text: str, *values: str) -> "Client":
        self.pg.exec_params(text.encode(), [value.encode() for value in values])
        return self

    def batch(self, *texts: str) -> "Client":
        """Several statements before one Sync, as a batch of JDBC."""
        self.pg.enter_pipeline_mode()
        for text in texts:
            self.pg.send_query_params(text.encode(), [])
        self.pg.pipeline_sync()
        while (found := self.pg.get_result()) is None or (
            found.status != pq.ExecStatus.PIPELINE_SYNC
        ):
            pass
        self.pg.exit_pipeline_mode()
        return self

    def close(self) -> None:
        self.pg.finish()


@dataclass(frozen=True, slots=True)
class Result:
    """What a command said."""

    code: int
    report: dict[str, Any]
    said: str


@dataclass
class Day:
    """One database of two servers; what is done on the first is in the log."""

    source: Postgres
    target: Postgres
    name: str
    folder: Path
    playhead: Playhead
    environment: dict[str, str] = field(default_factory=dict)
    _log_begins: int = 0

    def url(self, server: Postgres) -> str:
        return server.url.rpartition("/")[0] + f"/{self.name}"

    def before(self, *texts: str) -> None:
        """What both databases have before the log begins."""
        for server in (self.source, self.target):
            self.on(server, *texts)
        self._log_begins = self.source.log.stat().st_size

    def on(self, server: Postgres, *texts: str) -> list[tuple[str | None, ...]]:
        client = Client(self.url(server))
        found = None
        for text in texts:
            found = client.pg.exec_(text.encode())
            assert found.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK), text
        client.close()
        if found is None:
            return []
        rows = range(found.ntuples)
        values = [[found.get_value(row, at) for at in range(found.nfields)] for row in rows]
        return [tuple(None if v is None else v.decode() for v in row) for row in values]

    @contextmanager
    def client(self) -> Iterator[Client]:
        client = Client(self.url(self.source))
        try:
            yield client
        finally:
            client.close()

    def log(self) -> Path:
        """The log of the day, up to now."""
        end = f"the log of {self.name} ends {time.monotonic_ns()}"
        with self.client() as client:
            client.run(f"SELECT '{end}'")
        until = time.monotonic() + 20
        while end.encode() not in (found := self._logged()):
            assert time.monotonic() < until, "the server does not write its log"
            time.sleep(0.05)
        log = self.folder / f"{self.name}.csv"
        log.write_bytes(found[: found.rindex(b"\n") + 1])
        return log

    def _logged(self) -> bytes:
        with self.source.log.open("rb") as file:
            file.seek(self._log_begins)
            return file.read()

    def words(self, *more: str, log: str = "", run: str = "") -> list[str]:
        words = ["queries", "replay", log or f"csvlog:{self.log()}", "--to", self.url(self.target)]
        return [
            *words,
            "--databases",
            self.name,
            "--id",
            run or self.name,
            "-y",
            "-o",
            "json",
            *more,
        ]

    def replay(self, *more: str, log: str = "", run: str = "", **environment: str) -> Result:
        done = self.playhead(
            *self.words(*more, log=log, run=run), **(self.environment | environment)
        )
        assert "Traceback" not in done.stderr, done.stderr
        report = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        return Result(done.returncode, report, done.stderr)

    def same(self, query: str) -> bool:
        return self.on(self.source, query) == self.on(self.target, query)
