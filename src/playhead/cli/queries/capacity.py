"""`playhead queries capacity`: finds the highest pace at which a server keeps to a limit."""

import secrets
from dataclasses import replace

from playhead.cli.confirm import answer
from playhead.cli.options import Run, command, end
from playhead.cli.queries.replay import planned
from playhead.cli.replay.render import plan_rows
from playhead.cli.replay.run_replay import stopping
from playhead.errors import EXIT_DIFFERENT, UsageError
from playhead.options.queries import LOG, SERVER, SPAN_OF_LOG, STATEMENTS, UNTIL
from playhead.options.replays import ZONE
from playhead.options.shared import CONNECTION
from playhead.queries.capacity import measure, until_of
from playhead.queries.report import plan_document, plan_lines


@command(LOG, SERVER.without("no_marks"), UNTIL, STATEMENTS, SPAN_OF_LOG, ZONE, CONNECTION)
def capacity(run: Run, until: str | None, step: int, yes: bool, dry_run: bool) -> None:
    """Find the highest pace of the log SOURCE at which a server keeps to the limit --until.

    The log is played stretch by stretch: at 1x, 2x, 4x and so on until a stretch exceeds the limit, then at paces
    between the last one within the limit and the first one beyond it. No statement is played twice. There is no
    order between sessions. Exit code 4 if every pace exceeds the limit.
    """
    if until is None:
        raise UsageError("--until is missing", hint="give --until 'p99 > 50ms'")
    limit = until_of(until)
    run = replace(run, values=run.values | {"order": "session", "no_marks": True})
    made, workload = planned(run, secrets.token_hex(4))
    for line in plan_lines(made, workload, f"1x, 2x, 4x and so on, until {until}"):
        run.output.say(line)
    if dry_run:
        run.output.emit(plan_document(made, workload), plan_rows(made.plan))
        return
    with stopping(run, made.journal, made.plan.replay_id, "stopping"):
        found = measure(made, limit, step * 1_000_000, consent=answer(yes=yes), say=run.output.say)
    run.output.say(found.verdict())
    document = found.as_document()
    run.output.emit(document, document["stretches"])
    if found.held is None:
        raise end(EXIT_DIFFERENT)
