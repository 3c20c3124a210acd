"""The journal: this machine's runs with their plans, states and proofs, in one SQLite file.

Each target's ledger has what was committed. Losing this file loses history and plans, but nothing
about the data.
"""

import errno
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playhead import secrets
from playhead.errors import PlayheadError, Refused, UsageError
from playhead.grammar.field_types import need_kinds
from playhead.grammar.instant import show_ms
from playhead.host import file_lock, paths, private_files
from playhead.note import Note
from playhead.plan import Plan
from playhead.printable import printable
from playhead.target import InUse

_SCHEMA = """
CREATE TABLE IF NOT EXISTS replays (
    id TEXT PRIMARY KEY, made_at_ms INTEGER NOT NULL, plan TEXT NOT NULL, state TEXT NOT NULL,
    servers TEXT NOT NULL, started_at_ms INTEGER, ended_at_ms INTEGER, error TEXT, proof TEXT,
    verification TEXT
);
CREATE TABLE IF NOT EXISTS committed (id TEXT PRIMARY KEY, offsets INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS summaries (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL, planned INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS replays_by_time ON replays (made_at_ms DESC, id)
"""
NEW_SUMMARY = "INSERT INTO summaries VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_WAIT_FOR_LOCK_S = 10.0
_MOST_NAMED = 3
told_of_run: Callable[[str], None] | None = None
"""In the warm engine: told the id of a run before it is kept."""
PLANNED, RUNNING, STOPPED, FAILED, DONE, DIFFERENT = (
    "planned",
    "running",
    "stopped",
    "failed",
    "done",
    "different",
)


class UnknownReplay(UsageError):
    """No run of this machine has this id."""

    def __init__(self, found: str, *, candidates: tuple[str, ...] = ()) -> None:
        self.found, self.candidates = found, candidates
        text = (
            f"several replays begin with {found!r}"
            if candidates
            else f"there is no replay {found!r} here"
        )
        hint = (
            f"name one of {', '.join(candidates)}"
            if candidates
            else "`playhead runs` lists the replays of this machine; a plan saved with --plan runs anywhere"
        )
        super().__init__(text, hint=hint)


class OtherPlan(Refused):
    """This machine's journal has the id with another plan."""

    def __init__(self, replay_id: str, *, known: Plan, found: Plan) -> None:
        self.replay_id = replay_id
        ours, theirs = (each.request.target_endpoint.shown() for each in (found, known))
        where = f" into {theirs}" if ours != theirs else ""
        super().__init__(
            f"replay {replay_id} of this machine has another plan{where}, made at {show_ms(known.made_at_ms)}",
            hint=f"choose another --id, or continue that replay: playhead resume {replay_id}",
        )


class JournalBusy(PlayheadError):
    """Other processes have locked the journal for too long."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            f"another process has locked the journal {file} for {_WAIT_FOR_LOCK_S:g} s",
            hint="try again; the targets' ledgers have everything that was replayed",
        )


class JournalDamaged(PlayheadError):
    """The journal's file cannot be used."""

    def __init__(self, file: Path, *, reason: str, is_disk_full: bool = False) -> None:
        what = "free some space" if is_disk_full else "move it away to start a new one"
        super().__init__(
            f"the journal {file} cannot be used: {reason}",
            hint=f"{what}; the targets' ledgers have everything that was replayed",
        )


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One replay of the journal."""

    replay_id: str
    made_at_ms: int
    state: str
    plan: Plan
    servers: Mapping[str, str]
    """How its servers were named, so that a resume reaches the same ones; no secrets."""
    started_at_ms: int | None
    ended_at_ms: int | None
    error: str | None
    proof: Mapping[str, Any] | None
    verification: Mapping[str, Any] | None


Summary = tuple[str, str, str, int]


def on_unreadable(ids: Sequence[str]) -> list[Note]:
    """Return the sentence about rows that were left out."""
    if not ids:
        return []
    text = f"this machine's journal has {len(ids)} run{'s' if len(ids) > 1 else ''} that cannot be read"
    shown = ", ".join(ids[:_MOST_NAMED]) + (" …" if len(ids) > _MOST_NAMED else "")
    return [Note("journal-unreadable", f"{text}, left out here: {shown}")]


def summary_of(plan: Plan) -> Summary:
    """Return what a list shows of a plan: id, source, target, and the number of planned offsets."""
    request = plan.request
    return (
        plan.replay_id,
        request.source_endpoint.shown(),
        request.target_endpoint.shown(),
        plan.planned,
    )


class Journal:
    """Opens its file for each call, so that several processes can share it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or paths.state_dir()
        self.file = self._folder / "journal.sqlite"

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            private_files.folder(self._folder, is_passed=True)
            self._make_private()
            with closing(sqlite3.connect(self.file, timeout=_WAIT_FOR_LOCK_S)) as connection:
                connection.row_factory = sqlite3.Row
                connection.executescript(_SCHEMA)
                with connection:
                    yield connection
        except sqlite3.Error as exc:
            code = getattr(exc, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_BUSY:
                raise JournalBusy(self.file) from exc
            is_full = code == sqlite3.SQLITE_FULL
            raise JournalDamaged(self.file, reason=str(exc), is_disk_full=is_full) from exc
        except OSError as exc:
            is_full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = exc.strerror or str(exc)
            raise JournalDamaged(self.file, reason=reason, is_disk_full=is_full) from exc

    def _make_private(self) -> None:
        """Create the file, or close ours to other users: plans contain records.

        A file that is private already is not opened: closing it would end the locks that SQLite holds on it for
        other threads of this process.
        """
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(
                self.file.stat().st_mode
            ):  # SQLite would wait for the other end of a pipe.
                raise OSError(errno.EINVAL, "it is not a regular file", str(self.file))
            found = self.file.lstat()
            is_private = found.st_uid == os.geteuid() and not found.st_mode & 0o077
            if stat.S_ISREG(found.st_mode) and is_private:
                return
        private_files.touch(self.file)

    def keep(self, plan: Plan, servers: Mapping[str, str]) -> None:
        """Store a plan before it runs; an existing one stays, and must be of the same work."""
        if told_of_run is not None:
            told_of_run(plan.replay_id)
        row = (plan.replay_id, plan.made_at_ms, plan.as_json(), PLANNED, json.dumps(dict(servers)))
        with self._opened() as connection:
            kept = connection.execute(
                "INSERT INTO replays (id, made_at_ms, plan, state, servers) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                row,
            )
            if kept.rowcount:
                connection.execute(NEW_SUMMARY, summary_of(plan))
        known = self.get(plan.replay_id)
        if known is not None and known.plan.digest() != plan.digest():
            raise OtherPlan(plan.replay_id, known=known.plan, found=plan)

    def note(
        self,
        replay_id: str,
        state: str,
        *,
        error: str | None = None,
        proof: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the new state of a replay."""
        now_ms = time.time_ns() // 1_000_000
        # While it runs again, the end of an earlier run does not count.
        stamp = "ended_at_ms = NULL, started_at_ms" if state == RUNNING else "ended_at_ms"
        text = json.dumps(proof) if proof is not None else None
        with self._opened() as connection:
            connection.execute(
                f"UPDATE replays SET state = ?, error = ?, {stamp} = ?, "  # noqa: S608
                "proof = coalesce(?, proof) WHERE id = ?",
                (state, error and printable(secrets.redact(error)), now_ms, text, replay_id),
            )

    def note_verification(self, replay_id: str, document: Mapping[str, Any]) -> None:
        with self._opened() as connection:
            connection.execute(
                "UPDATE replays SET verification = ? WHERE id = ?",
                (json.dumps(document), replay_id),
            )

    def note_committed(self, replay_id: str, offsets: int) -> None:
        """Store how many planned offsets the ledger of its target has."""
        with self._opened() as connection:
            connection.execute(
                "INSERT INTO committed (id, offsets) VALUES (?, ?) "
                "ON CONFLICT (id) DO UPDATE SET offsets = excluded.offsets",
                (replay_id, offsets),
            )

    def note_seen(self, replay_id: str, offsets: int) -> None:
        """Store a number if it is the highest one yet; a full disk here stops no run."""
        with suppress(PlayheadError), self._opened() as connection:
            connection.execute(
                "INSERT INTO committed (id, offsets) VALUES (?, ?) "
                "ON CONFLICT (id) DO UPDATE SET offsets = max(offsets, excluded.offsets)",
                (replay_id, offsets),
            )

    def committed(self, replay_id: str) -> int:
        """Return how many planned offsets the ledger had when it was last read here."""
        with self._opened() as connection:
            row = connection.execute(
                "SELECT offsets, proof FROM replays LEFT JOIN committed USING (id) WHERE id = ?",
                (replay_id,),
            ).fetchone()
        if row is None:
            return 0
        if row["offsets"] is not None:
            return int(row["offsets"])
        # Earlier versions stored only the proof.
        totals = (json.loads(row["proof"]) if row["proof"] else {}).get("totals", {})
        return int(totals.get("planned", 0)) - int(totals.get("missing", 0))

    def get(self, replay_id: str) -> JournalEntry | None:
        """Return a replay by its whole id."""
        with self._opened() as connection:
            row = connection.execute("SELECT * FROM replays WHERE id = ?", (replay_id,)).fetchone()
        return self._run(row) if row is not None else None

    def find(self, beginning: str) -> JournalEntry:
        """Return the replay whose id is, or begins with, this text."""
        whole = self.get(beginning)
        if whole is not None:
            return whole
        # An empty text is probably a script's unset variable.
        found = tuple(each for each in self.ids() if beginning and each.startswith(beginning))
        run = self.get(found[0]) if len(found) == 1 else None
        if run is None:
            raise UnknownReplay(beginning, candidates=found)
        return run

    def ids(self) -> list[str]:
        """Return the ids of all runs, latest first."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT id FROM replays WHERE typeof(id) = 'text' ORDER BY made_at_ms DESC, id"
            )
            return [row["id"] for row in rows]

    def runs(self, unreadable: list[str] | None = None) -> list[JournalEntry]:
        """Return all runs, latest first; add the ID of an unreadable one to `unreadable`."""
        return [*self.latest(-1, [] if unreadable is None else unreadable)]

    def latest(self, most: int, unreadable: list[str]) -> Iterator[JournalEntry]:
        """Yield at most this many runs, latest first, each read when it is asked for."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT * FROM replays ORDER BY made_at_ms DESC, id LIMIT ?", (most,)
            ).fetchall()
        for row in rows:
            try:
                yield self._run(row)
            except UsageError:
                unreadable.append(str(row["id"]))

    def ended_before(self, until_ms: int, target: str, *, most: int) -> list[str]:
        """The latest runs that were done before that instant, into a target of this identity."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT id FROM replays WHERE state = ? AND ended_at_ms < ? AND json_valid(plan) "
                "AND json_extract(plan, '$.target.identity') = ? "
                "ORDER BY ended_at_ms DESC LIMIT ?",
                (DONE, until_ms, target, most),
            )
            return [row["id"] for row in rows]

    def forget(self, replay_id: str) -> None:
        """Take a run out of the journal; what it has committed stays where it is."""
        with self._opened() as connection:
            for table in ("replays", "summaries", "committed"):
                connection.execute(f"DELETE FROM {table} WHERE id = ?", (replay_id,))  # noqa: S608

    def state_of(self, row: sqlite3.Row) -> str:
        """Return the state of a run; if its process died, that is `stopped`."""
        if row["state"] == RUNNING and not self.is_held(row["id"]):
            return STOPPED
        return str(row["state"])

    def _run(self, row: sqlite3.Row) -> JournalEntry:
        try:
            return self._read(row)
        except (ValueError, TypeError, RecursionError, UsageError) as exc:
            raise UsageError(
                f"the journal's row of {row['id']} cannot be read: {exc}",
                hint="what was replayed is in the target's ledger: playhead resume ID TARGET",
            ) from exc

    def _read(self, row: sqlite3.Row) -> JournalEntry:
        plan = Plan.from_json(row["plan"], where="its plan")
        servers, proof, verification = (
            json.loads(row[name] or "null") for name in ("servers", "proof", "verification")
        )
        found = JournalEntry(
            row["id"],
            row["made_at_ms"],
            self.state_of(row),
            plan,
            servers,
            row["started_at_ms"],
            row["ended_at_ms"],
            row["error"],
            proof,
            verification,
        )
        need_kinds(found, "run")
        return found

    # --- one run at a time on this machine, and requests to stop ---------------------------------

    def stop_file(self, replay_id: str) -> Path:
        """The file whose presence asks the replay's tasks on this machine to stop at the next slice boundary."""
        return self._folder / "runs" / f"{replay_id}.stop"

    def ask_to_stop(self, replay_id: str) -> bool:
        """Request a stop; return False if the replay does not run here."""
        if not self.is_held(replay_id):
            return False
        private_files.touch(self.stop_file(replay_id))
        return True

    def is_held(self, replay_id: str) -> bool:
        return file_lock.is_held(self._lock_file(replay_id))

    @contextmanager
    def held(self, replay_id: str) -> Iterator[None]:
        """Hold the lock that allows one run at a time; it ends with the process."""
        private_files.folder(self._folder / "runs")
        with file_lock.held(self._lock_file(replay_id), lambda by: InUse(replay_id, where=by)):
            self.stop_file(replay_id).unlink(missing_ok=True)
            try:
                yield
            finally:
                self.stop_file(replay_id).unlink(missing_ok=True)

    def _lock_file(self, replay_id: str) -> Path:
        return self._folder / "runs" / f"{replay_id}.lock"
