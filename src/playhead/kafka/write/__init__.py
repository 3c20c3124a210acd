"""Topics as a target: transactions, the ledger, dead letters, comparison."""
