"""Everything that knows PostgreSQL."""
