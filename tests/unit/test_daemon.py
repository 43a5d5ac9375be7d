"""What of a reload is refused, as a function of two configurations."""

from gpumond.config.load import diff, parse
from gpumond.daemon import _with_fixed_keys

OLD = """
[store]
directory = "/srv/one"
[web]
listen_address = ":1001"
[benchmark]
lock_file = "/run/one.lock"
[simulate]
scenario = "hgx-h200-8"
"""

NEW = """
[store]
directory = "/srv/two"
keep_points = "60d"
[web]
listen_address = ":1002"
[benchmark]
lock_file = "/run/two.lock"
environment = { NCCL_ALGO = "Ring" }
[snapshot]
interval = "5m"
"""


def test_what_only_a_restart_can_change_stays_and_the_rest_is_taken():
    old, new = parse(OLD, name="old"), parse(NEW, name="new")
    assert diff(old, new).needs_restart
    effective = _with_fixed_keys(old, new)
    assert diff(old, effective).needs_restart == ()
    assert set(diff(effective, new).changed) == set(diff(old, new).needs_restart)
    assert effective.snapshot.interval == 300
    assert effective.benchmark.environment == {"NCCL_ALGO": "Ring"}
