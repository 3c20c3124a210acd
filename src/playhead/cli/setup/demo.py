"""`playhead demo`: a database loses power on real servers; the demo finds the gap, fills it and proves it."""

import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playhead.cli.options import Run, command, end
from playhead.cli.output import prompt, spoken
from playhead.cli.setup.sandbox import fetch_jars
from playhead.errors import EXIT_DIFFERENT
from playhead.host import paths, private_files
from playhead.options.setup import DEMO
from playhead.sandbox import Sandbox

if TYPE_CHECKING:
    from playhead.demo.afternoon import Outcome, Script

# A person may keep reading, but the demo does not wait forever.
_READS_FOR_S, _LOOKS_FOR_S = 30.0, 600.0
Tell = Callable[[str], None]


@command(DEMO)
def demo(run: Run) -> None:
    """Cars send, a pipeline writes, the database loses power: find the gap, fill it, prove it.

    Runs real servers in a folder of its own, and the commands that it prints; a running sandbox is not
    touched. Exit code 4 if at the end a row is missing or duplicated.
    """
    from playhead.demo.afternoon import Demo

    named = run.values["directory"]
    sandbox = Sandbox(paths.at_home(named).absolute() if named else paths.state_dir() / "demo")
    waits = not run.values["headless"] and sys.stdin.isatty() and sys.stderr.isatty()
    script = _script(run, reads_for_s=_READS_FOR_S if waits else 0.0)
    fetch_jars(run)
    run.output.say(f"starting Kafka and PostgreSQL in {sandbox.directory}")
    with sandbox.running() as endpoints, _written(run, sandbox) as (folder, tell):
        pause = _ask_for_enter if waits else _wait
        story = Demo(sandbox, endpoints, script, folder, tell=tell, pause=pause)
        outcome = story.play()
        _finish(run, sandbox, outcome)
        if waits:
            _ask_for_enter("shut the servers down", _LOOKS_FOR_S)
    if not outcome.is_right:
        raise end(EXIT_DIFFERENT)


def _script(run: Run, *, reads_for_s: float) -> "Script":
    from playhead.demo.afternoon import Script

    values = run.values
    before_s, outage_s, after_s = (values[name] / 1_000 for name in ("before", "outage", "after"))
    return Script(
        values["cars"], values["rate"], before_s, outage_s, after_s, reads_for_s, values["seed"]
    )


@contextmanager
def _written(run: Run, sandbox: Sandbox) -> Iterator[tuple[Path, Tell]]:
    """Create the demo's folder, and a function that prints and also writes the transcript."""
    place = run.values["folder"] or sandbox.directory / "afternoons" / time.strftime(
        "%Y%m%dT%H%M%S"
    )
    if not place.is_dir():  # Keep the mode of a user's existing folder.
        private_files.folder(place)
    began = time.monotonic()
    with private_files.opened(place / "transcript.txt", "w") as transcript:

        def tell(text: str) -> None:
            run.output.say(text)
            seconds = f"{time.monotonic() - began:7.2f}  "
            transcript.write(spoken(seconds + text).rstrip() + "\n")
            transcript.flush()

        tell(f"the transcript is written to {place.absolute()}")
        yield place.absolute(), tell


def _finish(run: Run, sandbox: Sandbox, outcome: "Outcome") -> None:
    say = run.output.say
    say("")
    say(f"transcript and charts are in {outcome.folder}")
    say(f"the servers' data are kept: {paths.sandbox_command('up', sandbox.directory)}")
    run.output.emit(outcome.as_document(), [outcome.row()])


def _wait(_what: str, seconds: float) -> None:
    time.sleep(seconds)


def _ask_for_enter(what: str, seconds: float) -> None:
    """Wait for Enter, or for the time to pass."""
    prompt(f">>>  press Enter: {what} (automatically in {seconds:.0f} s) ")
    if select.select([sys.stdin], [], [], seconds)[0]:
        sys.stdin.readline()
    else:
        prompt("\n")
