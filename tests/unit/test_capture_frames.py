"""Frames come out whole wherever the network cuts them, and what is no Kafka is named."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.capture.frames import Framer, NotKafka, framed

BODIES = st.lists(st.binary(max_size=40), max_size=8)


@given(BODIES, st.lists(st.integers(0, 400), max_size=20))
def test_frames_come_out_as_they_were_wherever_they_are_cut(bodies, cuts):
    stream = b"".join(framed(body) for body in bodies)
    places = sorted({0, *(min(cut, len(stream)) for cut in cuts), len(stream)})
    framer, found = Framer(), []
    for first, stop in pairwise(places):
        found += framer.take(stream[first:stop])
    assert found == [framed(body) for body in bodies]
    assert framer.held_bytes == 0


@given(BODIES, st.binary(min_size=1, max_size=40))
def test_a_frame_that_is_not_whole_is_held(bodies, last):
    framer = Framer()
    stream = b"".join(framed(body) for body in bodies) + framed(last)[:-1]
    assert list(framer.take(stream)) == [framed(body) for body in bodies]
    assert framer.held_bytes == len(framed(last)) - 1
    assert list(framer.take(last[-1:])) == [framed(last)]


@pytest.mark.parametrize(
    ("begins", "speaks"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"\xff\xff\xff\xff", None),
        (b"SSH-2.0-x", None),
    ],
)
def test_what_is_no_kafka_is_named(begins, speaks):
    with pytest.raises(NotKafka) as caught:
        list(Framer().take(begins))
    assert caught.value.speaks == speaks


def test_frames_before_the_one_that_is_none_are_given():
    framer, found = Framer(), []
    with pytest.raises(NotKafka):
        found.extend(framer.take(framed(b"good") + b"\xff\xff\xff\xff"))
    assert found == [framed(b"good")]
