"""Plans and runs a query replay."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

from playhead.config.context import Configuration
from playhead.config.guards import Consent, need_consent
from playhead.config.saved_servers import kept_servers
from playhead.endpoint import system_of
from playhead.errors import Refused, Stopped, UsageError
from playhead.pace import ScheduleError
from playhead.plan import Estimate, Plan
from playhead.proof import Proof, Took, prove
from playhead.queries.answers import Answers
from playhead.queries.beside import Comparison, Played, compare, refuse_one_server
from playhead.queries.filters import Filters
from playhead.queries.log import Log
from playhead.queries.outcome import DIVERGENT, FORCED_ORDER, STATE_LOST, Outcome, Results
from playhead.queries.query_rules import QueryRules, begun_elsewhere, terms_of
from playhead.queries.refusals import (
    BESIDE_IDENTITY,
    LedgerGone,
    identity,
    refuse_no_order,
    refuse_other,
    refuse_several_databases,
    refuse_several_runs,
    refuse_source,
)
from playhead.queries.rules import PlayRules
from playhead.queries.run import QueryRun
from playhead.queries.tape import TapeWriter
from playhead.queries.workload import Workload, deleted_rows, notes_of
from playhead.querylog.counts import RowOutcome
from playhead.replay.api import QUERIES
from playhead.replay.assemble import expecting
from playhead.replay.journal import DIFFERENT, DONE, FAILED, RUNNING, STOPPED, Journal
from playhead.replay.planner import freeze
from playhead.request import Request
from playhead.server import Server, ServerFacts
from playhead.source import Source
from playhead.systems import MakesSource
from playhead.target import Inspection

_MAY_BE_STATEMENTS = {*RowOutcome} - {
    RowOutcome.CONNECTION,
    RowOutcome.OTHER_PROCESS,
    RowOutcome.DUPLICATE,
}
"""What rows can be that a server writes of statements, also if it is not understood."""


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """The outcome of a run."""

    plan: Plan
    proof: Proof
    results: Results
    workload: Workload
    rules: QueryRules
    answers: Answers | None = None
    beside: Comparison | None = None
    ahead: Mapping[Outcome, int] = field(default_factory=dict)
    """The outcomes of statements that a stopped run has played and that are not in the ledger yet."""

    @property
    def outcomes(self) -> Counter[str]:
        """Number of statements by outcome: in the ledger, also of earlier runs, and ahead of it."""
        ahead = {outcome.name.lower(): count for outcome, count in self.ahead.items()}
        return Counter(self.proof.details) + Counter(ahead)

    def count(self, name: str) -> int:
        """Return how many statements have this outcome."""
        return self.outcomes[name]

    @property
    def divergences(self) -> int:
        """Number of statements with another result than on the source, or on the server of --beside."""
        differing = self.beside.only_beside if self.beside else 0
        return differing + sum(self.count(outcome.name.lower()) for outcome in DIVERGENT)

    @property
    def baseline(self) -> ScheduleError:
        """The latencies to compare with: those of the server of --beside, or of the source."""
        if self.beside is not None:
            return self.beside.other.results.latencies()
        return self.results.latencies(then=True)

    @property
    def forced(self) -> int:
        """Number of times that the order was given up, also in earlier runs."""
        return max(self.results.forced, self.count(FORCED_ORDER))

    @property
    def state_lost(self) -> int:
        """Number of sessions that lost temporary tables, cursors or locks, also in earlier runs."""
        return max(self.results.state_lost, self.count(STATE_LOST))

    @property
    def is_divergent(self) -> bool:
        """Whether a result differs from the source."""
        return bool(not self.proof.adds_up or self.divergences or self.forced)

    @property
    def is_idle(self) -> bool:
        """Whether nothing was played of a log that has more than connections: nothing is proved then."""
        rows = self.workload.log.reader.counts.rows
        return not self.workload.tape.to_play and any(rows[each] for each in _MAY_BE_STATEMENTS)

    @property
    def missing(self) -> int:
        """Number of rows or statements that could not be played, or not compared with the server of --beside."""
        log = self.workload.log
        counts, rows = log.reader.counts, log.reader.counts.rows
        unread = rows[RowOutcome.NOT_A_ROW] + rows[RowOutcome.LATE]
        unread += rows[RowOutcome.ANOTHER_LANGUAGE] + rows[RowOutcome.OTHER_SESSION]
        unread += self.beside.unknown if self.beside else 0
        unread += self.is_idle
        return self.count("not_replayable") + counts.lost + unread + self.state_lost + log.misplaced

    @property
    def is_equal(self) -> bool:
        """Whether all statements were played with the same results as on the source."""
        return not self.is_divergent and not self.missing


@dataclass(slots=True)
class QueryReplay:
    """A plan, and the servers and source to run it with."""

    plan: Plan
    source: Source
    server: Server
    configuration: Configuration
    rules: QueryRules
    beside: Server | None = None
    """The server of --beside, which plays the log first."""
    workload: Workload | None = None
    """The statements of the plan; None if another process planned it, or if they are followed."""
    journal: Journal = field(default_factory=Journal)

    def run(
        self,
        *,
        consent: Consent = None,
        say: Callable[[str], None] = lambda _: None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
        patience_s: float = 120.0,
    ) -> QueryOutcome:
        """Play the statements that the ledger and the marks lack; return the outcome."""
        with self.begun(consent) as facts:
            workload = self.read(facts)
            tape = workload.tape
            say(f"playing {len(tape):,} statements of {tape.session_count:,} sessions")
            outcome = self._compared(workload, progress, patience_s)
            state = DONE if outcome.is_equal else DIFFERENT
            self.journal.note(self.plan.replay_id, state, proof=outcome.proof.as_document())
        return outcome

    @contextmanager
    def begun(self, consent: Consent) -> Iterator[ServerFacts]:
        """Hold the run in this block; record the end of an incomplete run."""
        plan = self.plan
        action = f"replay the queries of {plan.request.source_endpoint.shown()} on {self.shown}"
        need_consent(action, plan.request.target_endpoint.name, self.configuration, consent)
        facts = self._begin(self.server)
        if self.beside is not None:
            self._begin(self.beside)
        self.journal.keep(plan, kept_servers(self.configuration))
        with self.journal.held(plan.replay_id):
            self.journal.note(plan.replay_id, RUNNING)
            try:
                yield facts
            except BaseException as exc:
                state = (
                    STOPPED
                    if isinstance(exc, Stopped) or not isinstance(exc, Exception)
                    else FAILED
                )
                self.journal.note(plan.replay_id, state, error=str(exc) or type(exc).__name__)
                raise

    def read(self, facts: ServerFacts) -> Workload:
        """Return the statements of the plan; read them if planning did not."""
        if self.workload is not None:
            return self.workload
        return read_workload(self.plan, self.source, self.rules, escapes=facts.has_escapes)

    def _begin(self, server: Server) -> ServerFacts:
        """Write the terms on a server; refuse a run whose earlier progress is unknown."""
        run, control = self.plan.replay_id, server.control()
        try:
            facts = control.facts()
            refuse_other(self.plan, facts, is_beside=server == self.beside)
            kept = control.terms(run)
            earlier = self.journal.get(run)
            if kept is None and earlier is not None and earlier.started_at_ms is not None:
                raise LedgerGone(run)
            if kept is not None and not self.rules.marks:
                raise Refused(
                    f"replay {run} was started without marks, so it is unknown which statements were played",
                    hint="restore the target, then use another --id",
                )
            if kept is not None and not control.has_marks():
                raise LedgerGone(run)
            control.prepare(run, terms_of(self.plan, self.rules))
        finally:
            control.close()
        return facts

    @property
    def shown(self) -> str:
        shown = f"database {self.plan.request.target_endpoint.name}"
        if self.beside is None:
            return shown
        return f"{shown} and on database {self.beside.database} of a second server"

    def _compared(
        self, workload: Workload, progress: Callable[[int, int], None], patience_s: float
    ) -> QueryOutcome:
        """Play on the server of --beside, if there is one, and then on the target."""
        if self.beside is None:
            return self._play(workload, self.server, progress, patience_s)
        refuse_one_server(self.server, self.beside, self.plan.replay_id)
        other = self._play(workload, self.beside, progress, patience_s)
        outcome = self._play(workload, self.server, progress, patience_s)
        assert other.answers is not None and outcome.answers is not None  # noqa: S101, PT018
        played = Played(other.results, other.answers, other.proof.details)
        return replace(outcome, beside=compare(workload.tape, outcome.answers, played))

    def _play(
        self,
        workload: Workload,
        server: Server,
        progress: Callable[[int, int], None],
        patience_s: float,
    ) -> QueryOutcome:
        """Play on one server."""
        began = time.monotonic()
        answers = Answers(len(workload.tape)) if self.beside else None
        run = QueryRun(
            self.plan.replay_id,
            workload.log,
            workload.tape,
            self.play_rules(server),
            server,
            patience_s,
            self.journal.stop_file(self.plan.replay_id).exists,
            progress,
            answers=answers,
        )
        is_done = run.play()
        outcome = self.outcome(self.plan, run, workload, time.monotonic() - began)
        if not is_done:
            raise _stopped(self.plan, outcome.proof)
        return replace(outcome, answers=answers)

    def play_rules(self, server: Server) -> PlayRules:
        """Return the rules for this server; refuse another server than the planned one."""
        plan, rules = self.plan, self.rules
        facts = _facts(server)
        refuse_other(plan, facts, is_beside=server == self.beside)
        return PlayRules(
            server.linker(facts, has_checksums=self.beside is not None),
            plan.request.spec.pace,
            server.marks(plan.replay_id) if rules.marks else None,
            rules.most_connections or max(1, facts.free_connections - 3),
            None if rules.idle_ms is None else rules.idle_ms * 1_000_000,
            rules.ignore_integrity_s,
        )

    def outcome(self, plan: Plan, run: QueryRun, workload: Workload, wall_s: float) -> QueryOutcome:
        """Return the outcome of a run, from the ledger."""
        control = run.server.control()
        entries = control.entries(plan.replay_id)
        control.close()
        results = run.results
        seconds = round(wall_s, 3), round(results.seconds, 3)
        took = Took(*seconds, None, len(workload.tape), len(entries))
        pace = None
        if not plan.request.spec.pace.is_max:
            pace = {"pace": plan.request.pace, **results.schedule.summary()}
        proof = prove(plan, entries, took=took, pace=pace)
        return QueryOutcome(plan, proof, results, workload, self.rules, ahead=run.ahead)


def _stopped(plan: Plan, proof: Proof) -> Stopped:
    done = plan.planned - proof.total("missing")
    return Stopped(
        f"replay {plan.replay_id} stopped at {done:,} of {plan.planned:,} rows; marks record what was played",
        hint=f"continue with: playhead queries replay --id {plan.replay_id}",
    )


def read_workload(plan: Plan, source: Source, rules: QueryRules, *, escapes: bool) -> Workload:
    """Read the planned rows, and write their tape; `escapes` as the target's standard_conforming_strings."""
    log, writer = opened(plan, source, rules, escapes=escapes)
    workload = Workload(log, writer.write(log.statements()))
    refuse_no_order(workload, rules)
    return workload


def opened(
    plan: Plan, source: Source, rules: QueryRules, *, escapes: bool, is_growing: bool = False
) -> tuple[Log, TapeWriter]:
    """Return the log of a plan, and the writer of its tape; nothing is read yet."""
    to_ms = None if rules.follow else plan.to_ms
    filters = Filters(
        rules.users, rules.databases, rules.applications, rules.skip_selects, rules.tables, rules.queries,
        None if plan.from_ms is None else plan.from_ms * 1_000,
        None if to_ms is None else to_ms * 1_000,
        frozenset(rules.allow),
    )  # fmt: skip
    log = Log(expecting(source, plan.source), plan.slices())
    writer = TapeWriter(filters.reason, rules.order, escapes=escapes, is_growing=is_growing)
    return log, writer


def source_of(request: Request, configuration: Configuration) -> Source:
    """Return the source of a log, without connecting."""
    system = system_of(request.source_endpoint)
    if not isinstance(system, MakesSource):
        raise UsageError(
            f"{request.source_endpoint.shown()} is not a log",
            hint="give csvlog:FILES, jsonlog:FILES, pglog:FILES or kafka:TOPIC",
        )
    return system.source(request.source_endpoint, request.spec, configuration)


def plan_queries(
    request: Request,
    rules: QueryRules,
    server: Server,
    configuration: Configuration,
    *,
    replay_id: str,
    beside: Server | None = None,
) -> tuple[QueryReplay, Workload]:
    """Read the whole log, and return the plan; write nothing on the target."""
    now_ns = time.time_ns()
    source = source_of(request, configuration)
    resolved = request.spec.span.resolve(now_ns)
    facts = source.facts()
    frozen = freeze(source, source.bounds(), resolved, request, facts.topics)
    partitions, looked = frozen.partitions, frozen.notes
    refuse_several_runs(partitions)
    control = server.control()
    found, kept = control.facts(), control.terms(replay_id)
    control.close()
    refuse_source(request, found)
    needs = {QUERIES: asdict(rules), "server": found.identifier}
    other = _beside(request, server, beside, replay_id)
    if other is not None:
        needs[BESIDE_IDENTITY] = identity(other)
    target = Inspection(identity(found), needs=needs)
    estimate = Estimate(sum(each.planned for each in partitions), None, None, "the log")
    plan = Plan(
        replay_id, request, now_ns // 1_000_000, resolved.from_ms, resolved.to_ms, tuple(partitions),
        facts, target, estimate, tuple(looked),
    )  # fmt: skip
    if kept is not None:
        plan = begun_elsewhere(plan, rules, kept)
    workload = read_workload(plan, source, rules, escapes=found.has_escapes)
    refuse_several_databases(workload)
    gone = deleted_rows(partitions)
    notes = (*looked, *gone, *facts.notes, *notes_of(workload, rules.order, found, other))
    plan = replace(plan, notes=notes)
    kept_workload = None if rules.follow else workload
    made = QueryReplay(plan, source, server, configuration, rules, beside, kept_workload)
    return made, workload


def _facts(server: Server) -> ServerFacts:
    control = server.control()
    try:
        return control.facts()
    finally:
        control.close()


def _beside(
    request: Request, server: Server, beside: Server | None, replay_id: str
) -> ServerFacts | None:
    """Return the facts of the server of --beside."""
    if beside is None:
        return None
    refuse_one_server(server, beside, replay_id)
    found = _facts(beside)
    refuse_source(request, found)
    return found
