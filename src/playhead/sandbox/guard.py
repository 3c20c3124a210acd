"""Stops a sandbox when its parent process ends, for whatever reason: `python -m
playhead.sandbox.guard DIR`.

The guard holds the reading end of a pipe. When its parent ends, even by SIGKILL, the kernel closes the other
end; nothing is polled, and no signal can be missed.
"""

import signal
import sys
from pathlib import Path

from playhead.sandbox.sandbox import Sandbox


def main() -> None:
    # Ctrl-C and a closing terminal are for the parent; the guard must outlive it.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    sys.stdin.buffer.read()
    Sandbox(Path(sys.argv[1])).down()


if __name__ == "__main__":
    main()
