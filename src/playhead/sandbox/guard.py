"""Stops a sandbox when the process that wanted it is gone, however it went: `python -m playhead.sandbox.guard DIR`.

The guard holds the reading end of a pipe. When its parent ends, even by SIGKILL, the kernel closes the
other end; nothing has to be polled and no signal can be missed.
"""

import signal
import subprocess
import sys
from pathlib import Path

from playhead.runtime import command_of
from playhead.sandbox.sandbox import Sandbox


def start_guard(directory: Path) -> "subprocess.Popen[bytes]":
    """A guard over the sandbox of `directory` that acts when this process ends or closes its stdin."""
    return subprocess.Popen(
        [*command_of("playhead.sandbox.guard"), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> None:
    # Ctrl-C and a closing terminal are for the parent; the guard has to outlive it.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    sys.stdin.buffer.read()
    Sandbox(Path(sys.argv[1])).down()


if __name__ == "__main__":
    main()
