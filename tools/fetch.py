"""Fetches every locked jar, with a progress line; part of `make setup`."""

import sys

from playhead.cli.output import Output
from playhead.errors import PlayheadError
from playhead.host import jars


def main() -> None:
    progress = Output().progress("fetching jars")
    try:
        jars.ensure("broker", "engine", progress=progress)
    except PlayheadError as exc:
        sys.exit(f"error: {exc}\nhint: {exc.hint}")
    finally:
        progress.close()


if __name__ == "__main__":
    main()
