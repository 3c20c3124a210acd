"""PostgreSQL's statement logs: the rows of any form and any version, and the statements that they show."""
