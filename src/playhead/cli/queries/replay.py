"""`playhead queries plan` and `replay`: plays a server's statement log on another server."""

from dataclasses import replace
from functools import partial
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from playhead import references, secrets
from playhead.cli.confirm import answer
from playhead.cli.options import Run, command, end
from playhead.cli.replay.render import plan_rows
from playhead.cli.replay.replay_options import span
from playhead.cli.replay.run_replay import stopping, with_servers
from playhead.config.context import Configuration
from playhead.endpoint import Endpoint
from playhead.errors import EXIT_DIFFERENT, BadValue, UsageError
from playhead.host import private_files, shared_files
from playhead.options.queries import (
    BESIDE,
    FOLLOW,
    LOG,
    OLDER_FLAGS,
    ORDER,
    REPORT,
    SERVER,
    SPAN_OF_LOG,
    STATEMENTS,
)
from playhead.options.replays import PACE, ZONE
from playhead.options.shared import CONNECTION
from playhead.plan import REPLAY_ID, Plan
from playhead.queries.checks import Check
from playhead.queries.explain import plans_of
from playhead.queries.follow import follow
from playhead.queries.query_rules import QueryRules, shown_rule
from playhead.queries.refusals import BESIDE_IDENTITY
from playhead.queries.replay import (
    QueryOutcome,
    QueryReplay,
    plan_queries,
    source_of,
)
from playhead.queries.report import document_of, junit_of, lines_of, plan_document, plan_lines
from playhead.queries.workload import Workload
from playhead.replay.api import QUERIES
from playhead.replay.journal import Journal
from playhead.request import Request
from playhead.server import Server

_SOON_MS = 60_000
_LOGIN = "login_of_target"
"""Key of the -p password in the values of a command."""


@command(LOG, SERVER, STATEMENTS, SPAN_OF_LOG, ZONE, ORDER.only("order"), CONNECTION, OLDER_FLAGS)
def plan(run: Run) -> None:
    """Read the log SOURCE, and show its content, what cannot be played, and the subscriptions of the target.

    Nothing is written.
    """
    made, workload = planned(run, token_hex(4))
    for line in plan_lines(made, workload):
        run.output.say(line)
    run.output.emit(plan_document(made, workload), plan_rows(made.plan))


@command(
    LOG, SERVER, BESIDE, FOLLOW, STATEMENTS, SPAN_OF_LOG, ZONE, PACE, ORDER, REPORT, CONNECTION,
    OLDER_FLAGS,
)  # fmt: skip
def replay(run: Run, replay_id: str | None, yes: bool, dry_run: bool, fail_if: list[str]) -> None:
    """Play the statements of the log SOURCE on another server, and report the differences.

    Each session gets its own connection. With --order commit, the tables are then the same as on the source, as
    far as the log shows their changes. With --beside, each answer is compared with that of a second server. With
    --follow, rows that are added to the topic are played too, until Ctrl-C.

    Exit code 4 if statements failed otherwise than on the source, answers differ, or a check of --fail-if is
    true; 5 if the replay was stopped before the end.
    """
    checks = [Check.parse(text) for text in fail_if]
    made = _made(run, replay_id, is_dry=dry_run)
    if made is None:
        return
    told = "stopping; the target has marks of what was played"
    progress = run.output.progress(f"queries {made.plan.replay_id}")

    def tell(done: int, total: int) -> None:
        progress.count(f"{done:,} of {total:,} statements", done, total)

    play = partial(follow, made) if made.rules.follow else made.run
    try:
        with stopping(run, made.journal, made.plan.replay_id, told):
            outcome = play(consent=answer(yes=yes), say=run.output.say, progress=tell)
    finally:
        progress.close()
    if made.rules.follow:
        run.output.say(f"continue with: playhead queries replay --id {made.plan.replay_id}")
    _report(run, made, outcome, checks)


def _made(run: Run, replay_id: str | None, *, is_dry: bool) -> QueryReplay | None:
    """Return what to run, and show its plan; None for a dry run."""
    if replay_id is not None and not REPLAY_ID.fullmatch(replay_id):
        needed = "letters, digits, '.', '_' and '-', at most 64"
        raise BadValue("--id", found=replay_id, needed=needed)
    earlier = Journal().get(replay_id) if replay_id else None
    if earlier is not None:
        run.output.say(f"replay {replay_id} exists; it continues with its saved plan")
        return _resumed(run, earlier.plan, dict(earlier.servers))
    made, workload = planned(run, replay_id or token_hex(4))
    for line in plan_lines(made, workload):
        run.output.say(line)
    if is_dry:
        run.output.emit(plan_document(made, workload), plan_rows(made.plan))
        return None
    return made


def planned(run: Run, replay_id: str) -> tuple[QueryReplay, Workload]:
    run = _with_older_flags(run)
    values = run.values
    configuration = run.configuration()
    server = _server(configuration, "--to", values.get(_LOGIN))
    source = Endpoint.parse(_source(values))
    request = Request(
        source=str(source),
        target=f"postgres:{server.database}",
        span=str(span(run)),
        lateness_ms=_SOON_MS,
        pace=values.get("pace") or "max",
        max_gap_ms=values.get("max_gap_ms"),
    ).from_anywhere()
    rules = replace(_rules(values), follow=_follows(values, source))
    return plan_queries(
        request, rules, server, configuration, replay_id=replay_id, beside=_beside(run)
    )


def _follows(values: dict[str, Any], source: Endpoint) -> bool:
    """Return whether the run also plays rows that are added to the topic."""
    ends = {"before": "to", "for": "for_", "offsets": "offsets", "beside": "beside"}
    given = [option for option, name in ends.items() if values.get(name)]
    if values.get("follow") is None:
        return bool(values.get("topic")) and "follow" in values and not given
    if values["follow"] and given:
        raise UsageError(f"--follow and --{given[0]} contradict each other")
    if values["follow"] and source.system != "kafka":
        raise UsageError(
            "--follow needs a topic as the source",
            hint="run playhead queries ship, which writes the files of a log into a topic",
        )
    return bool(values["follow"])


def _server(configuration: Configuration, option: str, password: str | None = None) -> Server:
    from playhead.postgres.replay_server import PostgresServer

    url = configuration.need("database", needed_for=option)
    if (
        password is not None
    ):  # The password is for this server only, and is not saved with the address.
        url = url.replace("@", f":{quote(password, safe='')}@", 1)
    return PostgresServer(url)


def _beside(run: Run) -> Server | None:
    """Return the server of --beside."""
    if not run.values.get("beside"):
        return None
    named = replace(run, values=run.values | {"database": run.values["beside"]})
    return _server(named.configuration(), "--beside")


def _resumed(run: Run, plan: Plan, servers: dict[str, str]) -> QueryReplay:
    if QUERIES not in plan.target.needs:
        raise UsageError(
            f"replay {plan.replay_id} is not a query replay",
            hint=f"run playhead resume {plan.replay_id}",
        )
    named = _with_older_flags(run)
    has_source = bool(named.values.get("topic") or named.values.get("source"))
    if has_source:
        asked = Endpoint.parse(_source(named.values)).from_anywhere()
        if str(asked) != plan.request.source:
            raise UsageError(
                f"replay {plan.replay_id} reads {plan.request.source_endpoint.shown()}, not {asked.shown()}",
                hint="leave SOURCE out or choose another --id",
            )
    configuration = with_servers(named, servers).configuration()
    rules, beside = QueryRules.from_plan(plan), _beside(named)
    rules.refuse_others(_rules(named.values), plan.replay_id, is_whole=has_source)
    for name, value in rules.said().items():
        run.output.say(f"  {name:<8} {shown_rule(value)}")
    if named.values.get("follow") not in (None, rules.follow):
        given = "follows its log" if rules.follow else "does not follow its log"
        raise UsageError(f"replay {plan.replay_id} {given}", hint="choose another --id")
    if (BESIDE_IDENTITY in plan.target.needs) != (beside is not None):
        given = (
            "was planned without --beside" if beside else "was planned with --beside; give it again"
        )
        raise UsageError(f"replay {plan.replay_id} {given}")
    source = source_of(plan.request, configuration)
    server = _server(configuration, "--to", named.values.get(_LOGIN))
    return QueryReplay(plan, source, server, configuration, rules, beside)


def _source(values: dict[str, Any]) -> str:
    if values.get("topic"):
        return f"kafka:{values['topic']}"
    if not values.get("source"):
        raise UsageError("SOURCE is missing", hint="give csvlog:/var/log/postgresql or -t TOPIC")
    return str(values["source"])


def _with_older_flags(run: Run) -> Run:
    """Return the run with the flags of the older tool translated into those of Playhead."""
    values = dict(run.values)
    if values.get("topic") and values.get("source") in ("true", "false"):  # -s takes a value there.
        values["skip_selects"] = values["source"] == "true"
        values["source"] = None
    if values.get("topic") and values.get("source"):
        raise UsageError("SOURCE and --topic contradict each other", hint="leave one of them out")
    if values.get("timeout_ms") and values.get("idle") is None:
        values["idle"] = values["timeout_ms"]
    if values.get("after"):
        values["from_"] = values.get("from_") or str(values["after"])
    url = values.get("server") or _url_of_older(run, values)
    if url:
        values["database"] = url
    return replace(run, values=values)


def _url_of_older(run: Run, values: dict[str, Any]) -> str | None:
    names = ("db_name", "db_user", "db_password", "db_host", "db_port")
    if not any(values.get(name) for name in names):
        return None
    password = values.get("db_password")
    login = quote(values.get("db_user") or "postgres", safe="")
    if password:
        if not password.startswith("${"):
            run.output.say(
                "warning: other users of this machine can see the password; write -p '${NAME}'"
            )
        found = references.resolve(password, key="--db-password", where="the command line")
        values[_LOGIN] = secrets.remember(found)
    host, port = values.get("db_host") or "localhost", values.get("db_port") or 5432
    return (
        f"postgresql://{login}@{host}:{port}/{quote(values.get('db_name') or 'postgres', safe='')}"
    )


def _rules(values: dict[str, Any]) -> QueryRules:
    def names(option: str) -> tuple[str, ...]:
        return tuple(each.strip() for each in (values.get(option) or "").split(",") if each.strip())

    return QueryRules(
        order=values.get("order") or "commit",
        users=names("users"),
        databases=names("databases"),
        applications=names("applications"),
        skip_selects=bool(values.get("skip_selects")),
        tables=names("tables"),
        queries=tuple(each.lower() for each in values.get("queries") or ()),
        most_connections=values.get("most_connections"),
        marks=not values.get("no_marks"),
        idle_ms=values.get("idle") or None,
        allow=tuple(values.get("allow_outside") or ()),
        ignore_integrity_s=values.get("ignore_errors") or 0,
    )


def _report(run: Run, made: QueryReplay, outcome: QueryOutcome, checks: list[Check]) -> None:
    has_literals = run.values["literals"]
    for line in lines_of(outcome, has_literals=has_literals):
        run.output.say(line)
    states = {check.text: check.state(outcome) for check in checks}
    for text, state in states.items():
        run.output.say(f"  check    {text}: {state}")
    plans = plans_of(outcome, made.server, made.beside, has_literals=has_literals)
    document = document_of(outcome, has_literals=has_literals, plans=plans)
    if run.values["report"] is not None:
        from playhead.queries.html_report import page_of

        file, page = run.values["report"], page_of(document)
        if has_literals:
            private_files.write(file, page)
        else:
            shared_files.write(file, page)
        run.output.say(f"the report is saved in {run.values['report']}")
    if run.values["junit"] is not None:
        shared_files.write(run.values["junit"], junit_of(outcome, states))
    run.output.emit(document, outcome.proof.rows())
    # A check that cannot be evaluated has failed.
    if set(states.values()) - {"not so"} or not outcome.is_equal:
        raise end(EXIT_DIFFERENT)
