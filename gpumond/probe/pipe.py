"""The standard output of a probe child, kept for its document: whatever else is printed goes to standard error."""

from __future__ import annotations

import os
import sys


def take_standard_output() -> int:
    """A descriptor for the document; from now on prints, also those of C code, go to standard error."""
    document_file = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return document_file
