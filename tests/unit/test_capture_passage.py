"""What goes to the process that writes arrives as it was, however the line cuts it."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from playhead.capture.pair_document import Captured, Connection
from playhead.capture.pipe_format import Ended, Unpacker, packed_connection, packed_end, packed_head

NUMBERS = st.integers(0, 2**32 - 1)
TIMES = st.integers(0, 2**63)
PAIRS = st.builds(
    Captured, NUMBERS, TIMES, TIMES, st.binary(max_size=50), st.binary(max_size=50), NUMBERS, NUMBERS, st.booleans()
)  # fmt: skip
CONNECTIONS = st.builds(
    Connection, NUMBERS, st.text(max_size=9), TIMES, TIMES, st.text(max_size=9), NUMBERS, st.text(max_size=9), NUMBERS
)  # fmt: skip


@given(
    st.lists(PAIRS | CONNECTIONS | st.builds(Ended, NUMBERS), max_size=8),
    st.lists(st.integers(0, 900), max_size=20),
)
def test_all_arrives_wherever_it_is_cut(sent, cuts):
    said = b""
    for each in sent:
        if isinstance(each, Captured):
            said += packed_head(each) + each.request + each.response
        else:
            said += (
                packed_connection(each)
                if isinstance(each, Connection)
                else packed_end(each.connection)
            )
    unpacker, found = Unpacker(), []
    for first, stop in pairwise(sorted({0, *(min(cut, len(said)) for cut in cuts), len(said)})):
        found += unpacker.take(said[first:stop])
    assert found == sent
