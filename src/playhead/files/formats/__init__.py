"""Parquet, JSON Lines and CSV."""
