"""Which records are kept and what becomes of them: expressions, read by a grammar of ours."""
