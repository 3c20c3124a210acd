"""Runs a command that ends when its parent process ends: `python -m playhead.demo.tied_process
COMMAND…`.

Its stdin is a pipe from the parent. When the parent ends, even by SIGKILL, the pipe closes and the
command gets SIGTERM. Other signals are passed on.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from threading import Thread


def main() -> None:
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL) as command:

        def pass_on(number: int, _: object = None) -> None:
            with suppress(ProcessLookupError):
                command.send_signal(number)

        for kind in (signal.SIGINT, signal.SIGTERM):
            signal.signal(kind, pass_on)

        def wait_for_parent() -> None:
            # Read the descriptor: a thread that waits in sys.stdin would crash the interpreter at
            # exit.
            while os.read(0, 4_096):
                pass
            pass_on(signal.SIGTERM)

        Thread(target=wait_for_parent, name="leash", daemon=True).start()
        code = command.wait()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
