"""The commands on the queries of PostgreSQL servers."""
