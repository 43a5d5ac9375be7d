"""Strings of drivers, of sysfs and of configuration files, made fit for label values.

Invariant: what comes out can be encoded as UTF-8, holds no control character but the newline (which the exposition
formats escape), and is at most LABEL_CHARACTERS_MAX long. Escaping for a format is prometheus_client's work.
"""

from __future__ import annotations

import hashlib
import re

LABEL_CHARACTERS_MAX = 128
"""Longer than any real device name; Prometheus drops a whole scrape whose labels exceed its configured limit."""

_DIGEST_CHARACTERS = 12

# Prometheus' text lexer takes a NUL for the end of the input, so one hostile name would end the scrape there.
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def label_value(text: str) -> str:
    """`text` as a label value; a cut one ends in a digest, so that two long names stay two."""
    clean = _UNPRINTABLE.sub(_escaped, text) if not text.isprintable() else text
    if len(clean) <= LABEL_CHARACTERS_MAX:
        return clean
    digest = hashlib.sha256(clean.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{clean[: LABEL_CHARACTERS_MAX - _DIGEST_CHARACTERS - 1]}~{digest}"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - the width of the escape
