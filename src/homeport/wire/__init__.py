"""Bytes to values and back. Pure: every function gets bytes and returns values, or the reverse.

What belongs here: the formats that clients and engines speak. What does not: sockets, decisions.
"""
