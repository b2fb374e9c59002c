"""PostgreSQL's analysed tree: its nodes and constants, and what they name. Pure reading."""
