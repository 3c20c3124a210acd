"""Kafka: the only folder that uses its clients and its protocol."""

from playhead.facade import make_callable

make_callable(__name__)
