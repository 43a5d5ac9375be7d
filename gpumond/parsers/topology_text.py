"""From what somebody pasted to one host's topology: finds the tool that printed it and hands over to its reader.

Pure and total: any text gives a TopologyText, an unreadable one a TopologyText without GPUs that says so. Time and
memory are linear in the length of the text, for a number of devices that is bounded.
"""

from __future__ import annotations

from gpumond.model.topology_text import TextProblem, TextProblemKind, TopologyText
from gpumond.parsers.amd_smi import read_amd_smi
from gpumond.parsers.amd_smi_documents import read_amd_documents
from gpumond.parsers.nvidia_smi import read_nvidia_smi
from gpumond.parsers.paste import clean_lines
from gpumond.parsers.rocm_smi import read_rocm_smi

NO_MATRIX = TopologyText(
    "", problems=(TextProblem(TextProblemKind.NO_MATRIX, 0, "no topology matrix in this text"),)
)


def parse_topology_text(text: str) -> TopologyText:
    """The first host that a text shows."""
    lines = clean_lines(text)
    # The AMD layouts announce themselves by titles or keys that nothing else has, so they are asked first.
    for read in (read_amd_documents, read_amd_smi, read_rocm_smi, read_nvidia_smi):
        found = read(lines)
        if found is not None:
            return found
    return NO_MATRIX
