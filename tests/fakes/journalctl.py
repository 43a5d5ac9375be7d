"""A `journalctl` that has what a file says: the real one needs a journal, and no test may write into the host's.

Each line of the file is one entry as `journalctl --output=json` prints it. A cursor that the file does not have is an
error, with journalctl's own words; so is a file that is not there, which stands for a user without access.
"""

import json
import sys
import time
from pathlib import Path


def main(file: str, *options: str) -> int:
    path = Path(file)
    if not path.exists():
        sys.stderr.write("No journal files were opened due to insufficient permissions.\n")
        return 1
    lines = path.read_text().splitlines()
    after = next((it.partition("=")[2] for it in options if it.startswith("--after-cursor=")), None)
    if after is not None:
        cursors = [json.loads(line)["__CURSOR"] for line in lines if line.startswith("{")]
        if after not in cursors:
            sys.stderr.write("Failed to seek to cursor: Invalid argument\n")
            return 1
        lines = lines[cursors.index(after) + 1 :]
    for line in lines:
        if line == "hang":
            sys.stdout.flush()
            time.sleep(3600)
        sys.stdout.write(line + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
