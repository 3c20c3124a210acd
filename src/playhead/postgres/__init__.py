"""PostgreSQL: the only folder that uses its drivers."""

from playhead.facade import make_callable

make_callable(__name__)
