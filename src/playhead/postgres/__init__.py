"""Everything that knows PostgreSQL."""

from playhead.facade import make_callable

make_callable(__name__)
