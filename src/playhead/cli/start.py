"""The program's entry: Ctrl-C while the command is still being loaded ends it, without a traceback."""

import atexit
import os
import signal
import sys

_EXIT_INTERRUPTED = 130
_OF_OTHERS = 0o077


def main() -> None:
    """Load the command, which takes a quarter of a second, and run it with its own signal handlers."""
    # Rights of other users may be withheld. Without our own, the next command could not open what we made.
    os.umask(os.umask(_OF_OTHERS) & _OF_OTHERS)
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # A shell's background job ignores the signal.
        signal.signal(signal.SIGINT, _end)
    from playhead.cli.app import main as run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    except SystemExit as end:
        _end_under_calls(end.code)
        raise


def _end_under_calls(code: object) -> None:
    """End the process at once if a call still runs whose result no one waits for.

    Its library would clean up at the end of the process, and crash under it.
    """
    from playhead.host.threads import is_any_left_behind

    if is_any_left_behind():
        arrow = sys.modules.get("pyarrow._s3fs")
        if arrow is not None:  # Its function waits for calls of S3, deaf to signals.
            atexit.unregister(arrow.ensure_s3_finalized)
        atexit._run_exitfuncs()
        os._exit(code if isinstance(code, int) else 1)


def _end(_number: int, _frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(_EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
