"""Starts processes that outlive the process that starts them."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any


class Detached(subprocess.Popen[bytes]):
    """A process in its own session: Ctrl-C does not reach it, and nothing needs to wait for it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        output: "IO[bytes] | int" = subprocess.DEVNULL,
        **more: Any,
    ) -> None:
        super().__init__(
            command,
            cwd=directory,
            env=environment,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **more,
        )

    def __del__(self) -> None:
        """Do nothing: the process is meant to keep running, so Python's warning would be wrong."""
