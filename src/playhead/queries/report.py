"""Builds the report of a run: verdict, statements that were not played, errors, slower queries."""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from playhead.queries.concurrency import Concurrency
from playhead.queries.filters import REASONS
from playhead.queries.outcome import Query
from playhead.queries.replay import QueryOutcome, QueryReplay
from playhead.queries.tape import Tape
from playhead.queries.workload import Workload

_MOST_QUERIES, _MOST_ERRORS, _MOST_NAMED = 20, 20, 10
_LEAST_CALLS, _MOST_SLOWER = 5, 5
_PERCENTS = (50, 95, 99)


def verdict(outcome: QueryOutcome) -> str:
    """Return one line with the result."""
    can_differ = outcome.rules.order == "session" or outcome.count("ignored")
    equal = "equal, but the tables can differ" if can_differ else "equal"
    word = "DIVERGENT" if outcome.is_divergent else "INCOMPLETE" if outcome.missing else equal
    counted = [*_counted(outcome), *_compared(outcome)]
    counts = [f"{count:,} {name}" for name, count in counted]
    counts += ["no statement was played"] * outcome.is_idle
    return f"{word}: {', '.join(counts) or 'there was no statement to play'}"


def _counted(outcome: QueryOutcome) -> list[tuple[str, int]]:
    names = {
        "replayed": "replayed",
        "expected_error": "failed as on the source",
        "ignored": "FAILED on integrity, or with their transaction, and were ignored",
        "unexpected_error": "FAILED OTHERWISE",
        "error_missing": "SHOULD HAVE FAILED",
        "filtered": "filtered",
        "not_replayable": "not replayable",
        "in_doubt": "IN DOUBT",
        "lost": "LOST",
        "earlier": "played by an interrupted run",
    }
    return [(text, count) for name, text in names.items() if (count := outcome.count(name))]


def _compared(outcome: QueryOutcome) -> list[tuple[str, int]]:
    beside = outcome.beside
    if beside is None:
        return []
    found = [
        ("DIFFER from the server of --beside", beside.differing),
        ("not compared", beside.unknown),
    ]
    return [(text, count) for text, count in found if count]


def lines_of(outcome: QueryOutcome, *, has_literals: bool = False) -> list[str]:
    """Return the report for a terminal."""
    results = outcome.results
    lines = [verdict(outcome), f"  proof    {outcome.proof.verdict()}"]
    rate = len(outcome.workload.tape) / results.seconds if results.seconds else 0
    lines.append(
        f"  speed    {results.seconds:.1f} s, {rate:,.0f} statements/s, at most "
        f"{results.most_connections} connections"
    )
    lines.append(f"  tables   {_tables(outcome)}")
    if results.schedule.count:
        summary = results.schedule.summary()
        lines.append(
            f"  schedule p50 {_ms(summary['p50_us'])}, p99 {_ms(summary['p99_us'])} late, "
            f"{summary['early']} early"
        )
    lines.append(f"  latency  {_latency_line(outcome)}")
    lines.append(f"  at once  {_at_once_line(outcome)}")
    lines += _lines_beside(outcome)
    if results.overtaken or results.played_again:
        lines.append(
            f"  order    {results.overtaken:,} transactions had overtaken others; "
            f"{results.played_again:,} statements were rolled back and played again"
        )
    if results.let_pass:
        lines.append(
            f"  locks    {results.let_pass:,} statements went first, because others waited for a lock that "
            "outlives its transaction"
        )
    if outcome.state_lost:
        lines.append(
            f"  state    {outcome.state_lost:,} sessions lost temporary tables, cursors or locks with their "
            "connection"
        )
    if outcome.forced:
        lines.append(
            f"  ORDER    {outcome.forced:,} times no session could continue, and the order was given up"
        )
    lines += [f"  skipped  {row['count']:,} {row['why']}" for row in _skipped(outcome)]
    lines += [
        f"  error    {row['count']:,} times {row['then']} on the source, {row['now']} on the target: {row['query']}"
        for row in _errors(outcome)
    ]
    named = [text if has_literals else text.partition(":")[0] for text in results.in_doubt]
    lines += [f"  in doubt {text}" for text in named[:_MOST_NAMED]]
    than = " of the server of --beside" if outcome.beside else ""
    lines += [
        f"  slower   {row['slower']:.1f}x at p95{than}, {row['calls']:,} calls: {row['query'][:100]}"
        for row in slower(outcome)
    ]
    return lines


def _lines_beside(outcome: QueryOutcome) -> list[str]:
    beside = outcome.beside
    if beside is None:
        return []
    said = f"{beside.compared:,} answers were compared, {beside.differing:,} differ"
    if beside.unknown:
        said += f"; {beside.unknown:,} are unknown: they were lost, or an interrupted run got them"
    if beside.canceled:
        said += f"; {beside.canceled:,} were not compared: the source canceled or ended them"
    return [f"  beside   {said}"] + [
        f"  differs  {each.count:,} times in the {each.what}: {each.beside} on --beside, "
        f"{each.target} on --to: {each.query[:200]}"
        for each in beside.first()
    ]


def _tables(outcome: QueryOutcome) -> str:
    """Return what the verdict means for the rows of tables, which were not compared."""
    if outcome.rules.order == "session":
        return "can differ, because --order session keeps no order between sessions"
    if not outcome.is_equal:
        return "can differ, because some statements were not played as on the source"
    if ignored := outcome.count("ignored"):
        return f"can differ: {ignored:,} statements failed here only, and were ignored (-i)"
    tape = outcome.workload.tape
    doubtful = max(tape.uncertain_writes, tape.overlaps.plain)
    text = "as on the source, except for clocks, random numbers, sequences"
    text += " and what was read while another transaction ended"
    if outcome.results.played_again:
        text += " or in a transaction that was played again"
    if doubtful:
        text += f", and where two of {doubtful:,} writes outside of transactions changed one row"
    if mixed := tape.overlaps.mixed:
        text += f", and where one of {mixed:,} writes outside of transactions changed a row that a transaction"
        text += " changed at the same time"
    return text


def _latency_line(outcome: QueryOutcome) -> str:
    times = {"then": outcome.results.latencies(then=True)}
    if outcome.beside is not None:
        times["beside"] = outcome.beside.other.results.latencies()
    times["now"] = outcome.results.latencies()
    return "; ".join(
        f"p{percent} "
        + ", ".join(f"{_ms(each.percentile_us(percent))} {name}" for name, each in times.items())
        for percent in _PERCENTS
    )


def _at_once(outcome: QueryOutcome) -> dict[str, Concurrency]:
    """Return how many statements ran at once, where it is known."""
    found = {"then": outcome.results.then, "now": outcome.results.now}
    if outcome.beside is not None:
        found["beside"] = outcome.beside.other.results.now
    return {name: each for name, each in found.items() if each}


def _at_once_line(outcome: QueryOutcome) -> str:
    shown = (
        f"{each.average:.1f} {name} on average, {each.peak:.1f} at most, in {each.seconds:,.1f} s"
        for name, each in _at_once(outcome).items()
    )
    return "; ".join(shown) or "unknown"


def _ms(us: float | int | None) -> str:
    return "unknown" if us is None else f"{us / 1_000:,.2f} ms"


def _skipped(outcome: QueryOutcome) -> list[dict[str, Any]]:
    return [
        {"reason": reason, "count": count, "why": REASONS[reason]}
        for reason, count in outcome.workload.skipped.most_common()
    ]


def _errors(outcome: QueryOutcome) -> list[dict[str, Any]]:
    return [
        {"count": count, "then": then, "now": now, "query": text[:200]}
        for (then, now, text), count in outcome.results.errors.most_common(_MOST_ERRORS)
    ]


def _queries(outcome: QueryOutcome) -> list[dict[str, Any]]:
    """Return the queries, slower ones first, by total time."""
    tape: Tape = outcome.workload.tape
    others = None if outcome.beside is None else outcome.beside.other.results.queries
    rows = [
        _query_row(tape.queries[at], each, None if others is None else others.get(at, Query()))
        for at, each in outcome.results.queries.items()
    ]
    return sorted(rows, key=lambda row: -row["weight"])[:_MOST_QUERIES]


def slower(outcome: QueryOutcome) -> list[dict[str, Any]]:
    """Return the queries that lost the most time compared with the source, or with --beside."""
    rows = [row for row in _queries(outcome) if row["slower"] is not None and row["slower"] > 1]
    return rows[:_MOST_SLOWER]


def _query_row(text: str, query: Query, beside: Query | None) -> dict[str, Any]:
    """Return the figures of a query; `slower` is relative to --beside, or to the source."""
    row: dict[str, Any] = {"query": text, "calls": query.calls, "rows": query.rows}
    all_times = {"then": query.then, "now": query.now}
    if beside is not None:
        all_times["beside"] = beside.now
    for name, times in all_times.items():
        for percent in _PERCENTS:
            row[f"{name}_p{percent}_us"] = times.percentile_us(percent)
    was, is_ = row["then_p95_us" if beside is None else "beside_p95_us"], row["now_p95_us"]
    is_known = bool(was) and is_ is not None and query.calls >= _LEAST_CALLS
    row["slower"] = round(is_ / was, 2) if is_known else None
    row["weight"] = max(0, (is_ or 0) - (was or 0)) * query.calls
    row["errors"] = dict(query.errors)
    return row


def document_of(
    outcome: QueryOutcome,
    *,
    has_literals: bool = False,
    plans: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the whole report as JSON values, without values of statements unless `has_literals`."""
    results = outcome.results
    in_doubt = (
        results.in_doubt if has_literals else [each.partition(":")[0] for each in results.in_doubt]
    )
    return {
        "verdict": verdict(outcome),
        "is_equal": outcome.is_equal,
        "divergences": outcome.divergences,
        "outcomes": dict(sorted(outcome.outcomes.items())),
        "order": outcome.rules.order,
        "seconds": round(results.seconds, 3),
        "statements": len(outcome.workload.tape),
        "sessions": outcome.workload.tape.session_count,
        "most_connections": results.most_connections,
        "overtaken": results.overtaken,
        "played_again": results.played_again,
        "let_pass": results.let_pass,
        "forced": outcome.forced,
        "state_lost": outcome.state_lost,
        "reconnected": results.reconnected,
        "schedule": results.schedule.summary() if results.schedule.count else None,
        "concurrency": {name: each.as_document() for name, each in _at_once(outcome).items()},
        "skipped": _skipped(outcome),
        "errors": _errors(outcome),
        "in_doubt": in_doubt,
        "beside": None if outcome.beside is None else outcome.beside.as_document(),
        "queries": _queries(outcome),
        "plans": list(plans),
        "proof": outcome.proof.as_document(),
    }


def junit_of(outcome: QueryOutcome, states: Mapping[str, str]) -> str:
    """Return the checks as JUnit XML, with one for the divergences."""
    cases = {
        "the target did what the source did": "not so" if outcome.is_equal else verdict(outcome)
    }
    cases |= states
    failures = sum(state != "not so" for state in cases.values())
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="playhead queries" tests="{len(cases)}" failures="{failures}">',
    ]
    for name, state in cases.items():
        body = "" if state == "not so" else f"<failure>{escape(state)}</failure>"
        lines.append(f"  <testcase name={quoteattr(name)}>{body}</testcase>")
    return "\n".join([*lines, "</testsuite>", ""])


def plan_lines(made: QueryReplay, workload: Workload, pace: str | None = None) -> list[str]:
    """Return a plan for a terminal; `pace` if the plan does not decide it."""
    tape, counts = workload.tape, workload.log.reader.counts
    statements = ", ".join(f"{count:,} {act}" for act, count in sorted(counts.statements.items()))
    request = made.plan.request
    return [
        f"queries {made.plan.replay_id}: {request.source_endpoint.shown()} on {made.shown}",
        f"  log      {counts.total:,} rows: {statements or 'no statements'}",
        f"  sessions {tape.session_count:,}, at most {tape.most_sessions:,} at once, with one connection each",
        f"  order    {made.rules.order}, {tape.numbers.total:,} transactions are numbered",
        f"  pace     {pace or request.pace}",
        *(["  follow   rows that are added to the topic, until Ctrl-C"] * made.rules.follow),
        *(f"  {note.weight:<8} {note.text}" for note in made.plan.notes),
    ]


def plan_document(made: QueryReplay, workload: Workload) -> dict[str, Any]:
    counts = workload.log.reader.counts
    return made.plan.as_document() | {
        "rows": {outcome.value: count for outcome, count in counts.rows.items()},
        "statements": dict(counts.statements),
        "not_played": dict(workload.skipped),
        "sessions": workload.tape.session_count,
        "most_connections": workload.tape.most_sessions,
    }
