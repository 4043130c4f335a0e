"""vLLM's dialect of HTTP: bodies in, bytes out. Pure; sockets and time are the server's.

What belongs here: what vLLM accepts, how it words its answers, events, errors and metrics.
What does not: when an answer comes (the engine), and how it is sent (the server).
"""
