from __future__ import annotations

from pathlib import Path

import pytest

from gpumond.errors import StoreError, StoreErrorKind
from gpumond.store.files import file_system_of, refuse_network_file_system

MOUNTS = r"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:5 / /dev rw - devtmpfs udev rw
31 21 0:41 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2
32 21 0:42 / /srv/with\040space rw - nfs server:/x rw
33 21 8:2 / /home/local rw - xfs /dev/sdb1 rw
34 33 0:44 / /home/local rw - fuse.sshfs me@there: rw
35 21 0:45 / /mnt/back\134slash rw - lustre there rw
a broken line
36 21 0:46 / /short
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/gpumond", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/state", "nfs4"),
        ("/homework", "ext4"),
        ("/srv/with space/state", "nfs"),
        ("/home/local/state", "fuse.sshfs"),  # mounted over the xfs
        ("/mnt/back\\slash", "lustre"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_last_and_longest_mount(path, kind):
    assert file_system_of(Path(path), MOUNTS) == kind


def test_a_path_under_no_mount_has_no_file_system():
    assert file_system_of(Path("/x"), "") == ""


@pytest.mark.parametrize("path", ["/home/me", "/srv/with space", "/home/local", "/mnt/back\\slash"])
def test_a_network_file_system_is_refused_with_a_hint(path):
    with pytest.raises(StoreError, match="network file system") as caught:
        refuse_network_file_system(Path(path), MOUNTS)
    assert caught.value.kind is StoreErrorKind.UNAVAILABLE
    assert "local disk" in caught.value.hint


def test_a_local_one_is_not():
    refuse_network_file_system(Path("/var/lib/gpumond"), MOUNTS)
