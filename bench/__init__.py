"""Figures: the gateway beside bare Spark and beside PostgreSQL 18, on the same rows, in one run.

`python -m bench` prints them; `python -m bench --help` names the parts. Each figure is measured alternately on either
side, so that a machine that slows down slows both.
"""
