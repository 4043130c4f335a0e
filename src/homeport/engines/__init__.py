"""Dialects of inference engines: what they call things. Pure.

What belongs here: paths, metric names and habits of one kind of engine. What does not: sockets.
"""

from homeport.engines.adapter import Dialect, EngineReading, Verdict
from homeport.engines.registry import DIALECTS, UnknownDialect, dialect

__all__ = ["DIALECTS", "Dialect", "EngineReading", "UnknownDialect", "Verdict", "dialect"]
