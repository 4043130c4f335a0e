"""The driver: feeds the router with events and carries out its commands."""
