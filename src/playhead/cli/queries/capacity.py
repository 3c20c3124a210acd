"""`playhead queries capacity`: the pace that a server holds."""

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
    """Find the pace of the log SOURCE that a server holds, by playing it faster until a limit breaks.

    Each next stretch of the log is played at 1x, 2x, 4x and so on, and then at paces between the last one
    that held and the one that broke the limit. No statement is played twice, and there is no order between
    sessions. Exit code 4 if no pace held.
    """
    if until is None:
        raise UsageError("no limit is named", hint="such as --until 'p99 > 50ms'")
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
