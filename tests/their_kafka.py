"""kafka-python, an implementation that is not ours, without the warnings of its import."""

import warnings

with warnings.catch_warnings():
    # It reads its definitions by a function that Python is about to drop.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.protocol import consumer, metadata, producer
    from kafka.record.memory_records import MemoryRecordsBuilder

__all__ = ["MemoryRecordsBuilder", "consumer", "kafka", "metadata", "producer"]
