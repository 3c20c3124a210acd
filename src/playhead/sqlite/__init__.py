"""SQLite as a target; no other folder uses `sqlite3` for it."""
