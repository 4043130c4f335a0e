"""The `homeport` command: one file a command."""
