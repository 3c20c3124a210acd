"""Everything that knows Kafka."""
