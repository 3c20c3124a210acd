"""Live pipelines: replays whose span has no end, on Spark's structured streaming and on our ledger."""
