"""Settings for the whole suite; the folder of this file is also where tests find `drive` and `reference`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

collect_ignore_glob = ["*/conftest.py"]
"""They have no doctests, and no two modules may have one name."""
settings.register_profile("freepull", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("freepull")
