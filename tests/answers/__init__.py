"""Random queries and changes, compared with PostgreSQL's answers: is any of Sluice's answers wrong?"""
