"""Isolation of transactions: schedules of several sessions, run on PostgreSQL and on the gateway alike."""
