"""Runs a command that ends with whoever wanted it: `python -m playhead.demo.tied_process COMMAND…`.

Its stdin is a pipe from the one who holds the leash. When that one ends, even by SIGKILL, the pipe
closes and the command is asked to end. Signals are handed on.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from threading import Thread


def main() -> None:
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL) as command:

        def hand_on(number: int, _: object = None) -> None:
            with suppress(ProcessLookupError):
                command.send_signal(number)

        for kind in (signal.SIGINT, signal.SIGTERM):
            signal.signal(kind, hand_on)

        def hold() -> None:
            # Not by sys.stdin: a reader that still waits there when the interpreter ends is fatal to it.
            while os.read(0, 4_096):
                pass
            hand_on(signal.SIGTERM)

        Thread(target=hold, name="leash", daemon=True).start()
        code = command.wait()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
