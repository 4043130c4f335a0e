"""Placement policies, one a file: each prices the endpoints that could take a request."""
