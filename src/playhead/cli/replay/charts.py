"""Timeline charts: their size for a terminal, and the file of the picture."""

import shutil
import sys
from pathlib import Path
from typing import TextIO

from playhead.cli.output import colour_is_wanted
from playhead.errors import UsageError
from playhead.host import shared_files
from playhead.timeline.text_chart import ChartSize

_BLOCKS = "▁█░│"


def paper_for(stream: TextIO, *, has_colour: bool | None = None) -> ChartSize:
    """Return a chart size that fits the terminal, with characters that the stream supports."""
    width = shutil.get_terminal_size().columns
    colour = colour_is_wanted() if has_colour is None else has_colour
    return ChartSize(width, has_blocks=_takes_blocks(stream), has_colour=colour)


def _takes_blocks(stream: TextIO) -> bool:
    try:
        _BLOCKS.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def save_picture(text: str, file: Path) -> None:
    try:
        shared_files.write(file, text)
    except OSError as exc:
        raise UsageError(f"cannot write the picture to {file}: {exc.strerror}") from exc


def paper_for_talk() -> ChartSize:
    """Return the chart size for stderr, without colour."""
    return paper_for(sys.stderr, has_colour=False)
