"""What holds for all tests: properties repeat exactly, and a slow machine is no failure."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "here",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("here")
