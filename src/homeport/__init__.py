"""Homeport: the layer between AI agents and a fleet of LLM inference engines."""
