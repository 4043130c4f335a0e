"""Policies: pure functions of core state that say which endpoint a request should go to.

What belongs here: one small file a policy, strict parameters, no state of its own.
"""
