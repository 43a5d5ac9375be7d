"""Where our cgroup is in the file system, from what /proc says of it."""

from pathlib import Path

import pytest

from gpumond.process.cgroup import own_directory

UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = (
    "19 40 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
    "20 41 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
PART = "30 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "expected"),
    [
        (
            "0::/system.slice/gpumond.service\n",
            UNIFIED,
            "/sys/fs/cgroup/system.slice/gpumond.service",
        ),
        ("9:name=systemd:/x\n0::/a/b\n", HYBRID, "/sys/fs/cgroup/unified/a/b"),
        ("0::/box/inner\n", PART, "/sys/fs/cgroup/inner"),
        ("0::/boxer\n", PART, None),
        ("0::/\n", UNIFIED, None),
        ("0::/../../other\n", UNIFIED, None),
        ("4:memory:/user\n", HYBRID, None),
        ("0::/a\n", "19 40 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw\n", None),
        ("", "", None),
    ],
)
def test_where_it_is(cgroup, mountinfo, expected):
    assert own_directory(cgroup, mountinfo) == (Path(expected) if expected else None)
