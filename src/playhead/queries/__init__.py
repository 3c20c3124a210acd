"""Query replay: plays the statements of a server's log on another server, and reports the differences."""
