"""Everything that knows SQLite."""
