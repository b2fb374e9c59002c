"""What transactions see of each other: schedules of several sessions, run on PostgreSQL and on the gateway alike."""
