"""Stops a sandbox when the process that wanted it is gone, however it went: `python -m playhead.sandbox.guard DIR`.

The guard holds the reading end of a pipe. When its parent ends, even by SIGKILL, the kernel closes the
other end; nothing has to be polled and no signal can be missed.
"""

import signal
import sys
from pathlib import Path

from playhead.sandbox.sandbox import Sandbox


def main() -> None:
    # Ctrl-C and a closing terminal are for the parent; the guard has to outlive it.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    sys.stdin.buffer.read()
    Sandbox(Path(sys.argv[1])).down()


if __name__ == "__main__":
    main()
