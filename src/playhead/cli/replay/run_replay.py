"""The common steps of commands that run a replay: show, ask, run, handle Ctrl-C, prove."""

import json
import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playhead.cli.confirm import answer
from playhead.cli.options import Run, end
from playhead.cli.replay.render import OPTIONAL_OF_PLAN, ProgressText, plan_rows
from playhead.cli.replay.replay_options import share
from playhead.cli.signals import first_signal
from playhead.config.layers import Precedence
from playhead.config.saved_servers import keep_saved_logins
from playhead.endpoint import Endpoint
from playhead.errors import EXIT_DIFFERENT, Refused, UsageError
from playhead.host.atomic_file import write_whole
from playhead.ledger import Entry
from playhead.plan import Plan
from playhead.proof import Proof
from playhead.replay import api
from playhead.replay.api import Planned
from playhead.replay.journal import Journal
from playhead.replay.journal import JournalEntry as JournalRun
from playhead.secrets import without_password
from playhead.shown import plan_lines, proof_lines, sample_lines
from playhead.standby.runner import held_for

# End an orderly stop after this time, before a service manager would kill the process.
STOPS_WITHIN_S = 20.0
# Options that need_source confirms, or that decide the offsets and the speed, but nothing that is written.
_OF_OFFSETS = {"source", "target", "span", "lateness_ms", "read_on", "pace", "max_gap_ms"}
# Another user may have written the file, and it may take no room on the disk.
_MOST_OF_A_PLAN = 256 << 20
_NAME_KAFKA = ("context", "bootstrap_servers", "kafka_config", "assignment")


def with_servers(run: Run, saved: dict[str, str]) -> Run:
    """Add the servers of an earlier run where the command names none."""
    taken = {name: value for name, value in saved.items() if not run.values.get(name)}
    if "bootstrap_servers" in taken and _names_brokers(run, saved):
        del taken["bootstrap_servers"]
    values = dict(run.values)
    for name, value in taken.items():
        values[name] = json.loads(value) if name == "assignment" else value
    with_saved = Run(run.output, values)
    if taken.keys() & {"assignment", "kafka_config"} and any(map(run.values.get, _NAME_KAFKA)):
        keep_saved_logins(saved, taken, with_saved.configuration())
    return with_saved


def _names_brokers(run: Run, saved: dict[str, str]) -> bool:
    """Return whether the command names brokers, also by a context, a file or -X."""
    if run.values.get("context") and "context" in saved:
        return True
    alone = Run(run.output, run.values | {"context": saved.get("context")})
    return Precedence.COMMAND_LINE in alone.configuration().homes


def show(run: Run, planned: Planned) -> None:
    """Print a dry run: the whole plan as data, and lines for people."""
    plan = planned.plan
    for line in (*plan_lines(plan), *_servers(planned)):
        run.output.say(line)
    for line in sample_lines(plan, shutil.get_terminal_size((160, 24)).columns):
        run.output.say(line, is_data=True)
    run.output.emit(plan.as_document(), plan_rows(plan), optional=OPTIONAL_OF_PLAN)


def play(run: Run, planned: Planned, *, yes: bool) -> None:
    """Show, ask, run, prove; end with the proof's exit code."""
    report(run, run_shown(run, planned, yes=yes))


def _servers(planned: Planned) -> Iterator[str]:
    """Print the servers that the plan's names mean here; a plan contains no addresses, or another user's."""
    servers, target = planned.servers, planned.plan.request.target_endpoint
    if target.system == "postgres" and target.address is None:
        servers["database"] = planned.configuration.need("database", needed_for=target.shown())
    if servers:
        told = ", ".join(f"{name} {without_password(value)}" for name, value in servers.items())
        yield f"  servers  {told}"


def run_shown(run: Run, planned: Planned, *, yes: bool) -> Proof:
    """Show the plan, ask, and run it with its progress; the first Ctrl-C stops at a slice boundary."""
    if planned.is_begun:
        replay_id = planned.plan.replay_id
        run.output.say(f"the target's ledger already has {replay_id} with this plan; resuming it")
    for line in (*plan_lines(planned.plan), *_servers(planned)):
        run.output.say(line)
    planned.copies_again = planned.copies_again or bool(run.values.get("again"))
    planned.agree(answer(yes=yes))
    told = "stopping at the next slice boundary; press again to stop immediately"
    with stopping(run, planned.journal, planned.plan.replay_id, told):
        return run_aloud(run, planned)


def run_aloud(run: Run, planned: Planned, heed: Callable[[], None] = lambda: None) -> Proof:
    """Run the plan with progress output; `heed` is called regularly."""
    progress, told = run.output.progress(f"replay {planned.plan.replay_id}"), ProgressText()

    def tell_progress(done: int, total: int, entries: Sequence[Entry]) -> None:
        progress.count(told(done, total, entries), done, total)
        heed()

    try:
        return planned.run(say=run.output.say, progress=tell_progress)
    finally:
        progress.close()


def report(run: Run, proof: Proof) -> None:
    for line in proof_lines(proof):
        run.output.say(line)
    run.output.emit(proof.as_document(), proof.rows())
    if not proof.adds_up:
        raise end(EXIT_DIFFERENT)


@contextmanager
def stopping(run: Run, journal: Journal, replay_id: str, told: str) -> Iterator[None]:
    """Let the first signal request a stop of the run; the second has its usual effect."""

    def stop(number: int) -> None:
        run.output.say(told if journal.ask_to_stop(replay_id) else "stopping")
        if not journal.is_held(replay_id):
            signal.raise_signal(number)

    with first_signal(stop, within_s=STOPS_WITHIN_S):
        yield


def load_plan(file: Path) -> Plan:
    try:
        # Another user may put a pipe into its place, which would wait for a writer.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UsageError(f"{file} is not a plan: it is not a regular file")
            if found.st_size > _MOST_OF_A_PLAN:
                raise UsageError(f"{file} is not a plan: it has {found.st_size:,} bytes")
            text = opened.read(found.st_size).decode()
    except OSError as exc:
        raise UsageError(f"cannot read the plan {file}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise UsageError(f"{file} is not a plan: it is not UTF-8 text") from exc
    return Plan.from_file(text, where=str(file))


def save_plan(run: Run, plan: Plan, file: Path) -> None:
    try:
        # Only its owner can read it: the file names servers and contains records.
        write_whole(file, plan.as_json() + "\n")
    except OSError as exc:
        raise UsageError(f"cannot write the plan to {file}: {exc.strerror}") from exc
    run.output.say(
        f"the plan is saved in {file}; the same command with --plan {file} runs exactly this plan"
    )


def resume_saved(
    run: Run,
    saved: JournalRun,
    *,
    yes: bool,
    trusts_ledger: bool = False,
    names_source: bool = False,
) -> None:
    """Resume a replay of the journal; a finished one reads and writes nothing.

    A command that names the source means the topics of now, and is refused if they are not the planned ones.
    """
    with_saved = with_servers(run, dict(saved.servers))
    part = share(run, saved.plan.request.target_endpoint)
    planned = api.planned(saved.plan, with_saved.configuration(), share=part)
    planned.trusts_ledger = trusts_ledger
    planned.is_resumed = True
    if names_source:
        planned.refuse_another_source()
    with held_for(saved.replay_id):
        play(with_saved, planned, yes=yes or planned.has_nothing_left())


def resume_from_ledger(
    run: Run,
    replay_id: str,
    target: Endpoint,
    *,
    source: Endpoint | None = None,
    yes: bool,
    trusts_ledger: bool = False,
) -> None:
    """Resume a replay that another machine began, with the plan in its target's ledger."""
    part = share(run, target.from_anywhere())
    planned = api.resumed(replay_id, target, run.configuration(), share=part)
    planned.trusts_ledger = trusts_ledger
    need_source(planned.plan, source, will_ask=not yes)
    need_letters(planned.plan, will_ask=not yes)
    need_rules(planned.plan, will_ask=not yes)
    play(run, planned, yes=yes)


def need_source(plan: Plan, named: Endpoint | None, *, will_ask: bool) -> None:
    """Refuse a ledger's source that the user has not named: anyone who can write the ledger can change it."""
    reads = plan.request.source_endpoint
    if named is not None and named.from_anywhere() != reads:
        raise UsageError(
            f"replay {plan.replay_id} reads {reads.shown()}, but --source is {named.shown()}",
            hint=f"use --source {reads.shown()} if you trust it",
        )
    if not will_ask and named is None and not _was_confirmed(plan):
        raise Refused(
            f"replay {plan.replay_id} would read {reads.shown()}; only the ledger says so, "
            "and others may have written there",
            hint=f"add --source {reads.shown()} if you trust it",
        )


def need_letters(plan: Plan, *, will_ask: bool, will_read: bool = False) -> None:
    """Refuse an unconfirmed topic of dead letters from a ledger: its cluster may be that of the source."""
    rule = plan.request.on_error
    if will_ask or plan.request.spec.on_error.topic is None or _was_confirmed(plan):
        return
    what = "the dead letters" if will_read else "records"
    does = "would be read from" if will_read else "that cannot be written would go to"
    confirm = "verify it where it ran" if will_read else "leave --yes out to confirm it"
    raise Refused(
        f"{what} of replay {plan.replay_id} {does} {rule}; only the ledger says so, and others may "
        "have written there",
        hint=f"{confirm}, or give all options of the replay: "
        f"playhead replay … --on-error {rule} --id {plan.replay_id}",
    )


def need_rules(plan: Plan, *, will_ask: bool) -> None:
    """Refuse unconfirmed options of a ledger that decide what is written, if the user is not asked."""
    rules = sorted(plan.request.said().keys() - _OF_OFFSETS)
    if will_ask or not rules or _was_confirmed(plan):
        return
    flags = ", ".join("--" + name.replace("_", "-") for name in rules)
    raise UsageError(
        f"replay {plan.replay_id} would run with {flags}; only the ledger says so, and others may have "
        "written there",
        hint="leave --yes out to see and confirm them, or give all options of the replay: "
        f"playhead replay … --id {plan.replay_id} --yes",
    )


def _was_confirmed(plan: Plan) -> bool:
    """Return whether this machine has run this very plan before."""
    known = Journal().get(plan.replay_id)
    return known is not None and known.plan.digest() == plan.digest()
