"""`homeport bench`: what decisions, the prefix index and the byte path cost on this machine."""
