"""No client is ever an answer behind or ahead: random messages, sent to PostgreSQL and to the gateway.

`vocabulary` has the statements, `sequences` makes messages of a seed, `conversation` sends them and reads the answers.
`trial` compares both sides, and leaves messages out until the difference is small.
"""
