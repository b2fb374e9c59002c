"""Executes statements: `dispatch` chooses the portal; each room has the portals of one kind of statement."""
