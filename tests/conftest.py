"""How fast the machine is says nothing about the code: no test of Hypothesis fails because it is busy."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers.fixtures"]

settings.register_profile("windlass", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("windlass")
