"""Live pipelines: replays without an end, on Spark's structured streaming and our ledger."""
