"""Dialects of inference engines: what they call things. Pure.

What belongs here: paths, metric names and habits of one kind of engine. What does not: sockets.
"""
