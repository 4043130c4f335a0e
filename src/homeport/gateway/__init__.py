"""The relay: HTTP in front, engines behind, bytes between. It moves; it does not decide."""
