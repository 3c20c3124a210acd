"""Which records are kept and how they change: SQL expressions in a limited grammar."""
