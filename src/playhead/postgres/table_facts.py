"""Reads what a comparison with the rows of tables rests on: row security, and who wrote into them."""

from collections.abc import Collection

from playhead.inventory import TableFacts
from playhead.postgres.errors import RightMissing
from playhead.postgres.session import Session
from playhead.postgres.table import read_table
from playhead.postgres.table_name import place_of
from playhead.postgres.terms import Replays, whereto
from playhead.tables.columns import TOPIC
from playhead.terms import Terms


def facts_of(session: Session, table: str, topics: Collection[str], replays: Replays) -> TableFacts:
    """Return the facts about the tables of these topics; other methods refuse those that do not exist."""
    places = {topic: place_of(session.run, table, topic) for topic in topics}
    found = {place: read_table(session.run, place) for place in dict.fromkeys(places.values())}
    tables = [there for there in found.values() if there is not None]
    policed = [str(each.place) for each in tables if each.has_row_security]
    keys = {str(each.place): [key.columns for key in each.keys] for each in tables}
    begun: dict[str, Terms] = {}
    try:
        for each in tables:
            begun |= replays.begun_with(each.place, each.oid)
    except RightMissing:
        return TableFacts(policed, None, keys)
    untold = {
        topic: whereto(its.place, its.oid)
        for topic, place in places.items()
        if (its := found[place]) is not None and its.column(TOPIC) is None
    }
    return TableFacts(policed, begun, keys, untold)
