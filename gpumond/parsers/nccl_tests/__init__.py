"""Output of nccl-tests and rccl-tests, all eras: text -> ParsedOutput. Pure.

text        one line: decoding, escape sequences, launcher prefixes, NCCL's own lines glued to a row
layout      which columns a table has, from its header or, without one, from the types of its cells
fitting     whether words fit a layout
arithmetic  whether a row's numbers can be true (DESIGN rule 6)
rows        fragments -> rows: a row is three prints, and other output lands between them
failures    which lines say that a run ended before its time
facts       what the text says around the table
reader      puts them together, line by line, in bounded memory; the outcome
"""

from gpumond.parsers.nccl_tests.reader import MAX_INPUT_BYTES, Reader, parse, parse_bytes
from gpumond.parsers.nccl_tests.text import decoder_for

__all__ = ["MAX_INPUT_BYTES", "Reader", "decoder_for", "parse", "parse_bytes"]
