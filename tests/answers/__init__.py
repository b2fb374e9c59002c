"""Random queries and changes, of which PostgreSQL tells the right answer: is any of Sluice's answers wrong?"""
