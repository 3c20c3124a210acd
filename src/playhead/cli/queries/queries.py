"""`playhead queries`: ships and replays a server's statement log."""

from playhead.cli.options import group
from playhead.cli.queries.capacity import capacity
from playhead.cli.queries.replay import plan, replay
from playhead.cli.queries.ship import ship

queries = group(
    "Ship a PostgreSQL server's statement log into topics, and replay its queries.",
    ship,
    plan,
    replay,
    capacity,
    name="queries",
)
