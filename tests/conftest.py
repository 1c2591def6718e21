"""Settings for the whole suite; the folder of this file is also where tests find `drive` and `reference`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("freepull", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("freepull")
