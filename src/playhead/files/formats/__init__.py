"""The formats: Parquet, JSON Lines and CSV."""
