"""Simulated engines: a pure model of an engine, HTTP servers around it, and agents that use
them."""
