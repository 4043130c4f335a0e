"""The config file: its schema, how it is loaded, and errors that say what to do."""
