"""`playhead sandbox`: a real broker and a real database on this machine."""

import shlex
from typing import Any

from playhead.cli.confirm import answer
from playhead.cli.options import Run, command, end, group
from playhead.config.context import configure
from playhead.config.guards import need_consent
from playhead.errors import EXIT_FAILED, SandboxError
from playhead.host import jars, paths
from playhead.options.setup import UP
from playhead.options.shared import SANDBOX
from playhead.sandbox import Sandbox, Status


def chosen(run: Run) -> Sandbox:
    """Return the sandbox of --dir or PLAYHEAD_SANDBOX_DIR, or the user's default one."""
    named = run.values["directory"]
    return Sandbox(paths.at_home(named).absolute() if named else paths.sandbox_dir())


def fetch_jars(run: Run) -> None:
    """Fetch all jars before a server or an engine needs them."""
    progress = run.output.progress("fetching jars")
    try:
        jars.ensure("broker", "engine", progress=progress)
    finally:
        progress.close()


@command(UP)
def up(run: Run, fresh: bool, dry_run: bool, yes: bool) -> None:
    """Start the servers that are not running; data and addresses stay from run to run.

    While it is up, it is the context `sandbox`, which commands use if no other is chosen.
    """
    sandbox = chosen(run)
    if dry_run:
        _say_what_up_would_do(run, sandbox, fresh)
        return
    if fresh and (sandbox.directory / "sandbox.json").exists():
        action = f"delete all data of the sandbox in {sandbox.directory}"
        need_consent(action, "sandbox", configure({}), answer(yes=yes))
    fetch_jars(run)
    sandbox.up(fresh=fresh, say=run.output.say)
    _emit(run, sandbox.status())
    enter, stop = (paths.sandbox_command(verb, sandbox.directory) for verb in ("env", "down"))
    run.output.say(f'in a shell: eval "$({enter})"; stop it with: {stop}')


def _say_what_up_would_do(run: Run, sandbox: Sandbox, fresh: bool) -> None:
    status = sandbox.status()
    pids = {"broker": status.broker_pid, "database": status.database_pid}
    has_data = (sandbox.directory / "sandbox.json").exists()
    deletes = fresh and has_data
    rows = [
        {
            "server": server,
            "running": pid is not None,
            "would_start": deletes or pid is None,
            "would_delete_data": deletes,
        }
        for server, pid in pids.items()
    ]
    run.output.emit({"directory": str(sandbox.directory), "servers": rows}, rows)


@command(SANDBOX)
def down(run: Run) -> None:
    """Stop the servers, and keep their data."""
    sandbox = chosen(run)
    stopped = sandbox.down(say=run.output.say)
    run.output.say(f"stopped {' and '.join(stopped)}" if stopped else "nothing was running")


@command(SANDBOX)
def status(run: Run) -> None:
    """Show which servers run, and their addresses; exit code 1 unless both run."""
    found = chosen(run).status()
    _emit(run, found)
    if not found.is_up:
        raise end(EXIT_FAILED)


@command(SANDBOX)
def env(run: Run) -> None:
    """Print shell exports with the sandbox's addresses: eval "$(playhead sandbox env)"."""
    found = chosen(run).status()
    if found.endpoints is None or not found.is_up:
        raise SandboxError(
            f"the sandbox in {found.directory} is not running",
            hint=f"start it: {paths.sandbox_command('up', found.directory)}",
        )
    variables = found.endpoints.environment()
    if run.output.form == "table":
        run.output.text("\n".join(f"export {k}={shlex.quote(v)}" for k, v in variables.items()))
    else:
        run.output.emit(variables, [{"variable": k, "value": v} for k, v in variables.items()])


def _emit(run: Run, found: Status) -> None:
    from playhead.secrets import without_password

    where = found.endpoints
    rows: list[dict[str, Any]] = [
        {
            "server": "broker",
            "state": "up" if found.broker_pid else "down",
            "pid": found.broker_pid,
            "address": where.bootstrap_servers if where and found.broker_pid else None,
        },
        {
            "server": "database",
            "state": "up" if found.database_pid else "down",
            "pid": found.database_pid,
            "address": without_password(where.database_url)
            if where and found.database_pid
            else None,
        },
    ]
    run.output.emit({"directory": str(found.directory), "up": found.is_up, "servers": rows}, rows)


sandbox = group(
    "A real Kafka broker and a real PostgreSQL here: loopback only, no Docker, no rights needed.",
    up,
    down,
    status,
    env,
    name="sandbox",
)
