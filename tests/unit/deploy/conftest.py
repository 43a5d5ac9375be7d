"""The tools of tools/ are programs, not a package: tests import them by name."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

with warnings.catch_warnings():
    # Grafana would rather have its schema v2, which Grafana 11 does not load.
    warnings.filterwarnings("ignore", "Prefer using dashboardv2", DeprecationWarning)
    import dashboards  # noqa: F401 - imported here, so that no test module sees the warning
