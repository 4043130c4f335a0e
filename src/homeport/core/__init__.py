"""The mind: values and state machines that decide. Pure: no IO, clock, randomness, logging.

What belongs here: what is true of requests, endpoints, sessions and caches whatever the protocol.
What does not: bytes, HTTP words, an engine's dialect.
"""
