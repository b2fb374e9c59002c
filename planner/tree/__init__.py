"""PostgreSQL's analysed tree: its nodes and constants, and the objects that they name. Pure."""
