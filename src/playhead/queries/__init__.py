"""Query replay: the statements of a server's log, played again on another server, with a verdict."""
