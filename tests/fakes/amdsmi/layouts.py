"""Run as a child, on any libamd_smi.so: prints the structures of the installed amdsmi as tables for C.

A field inside another structure is named `outer__inner`, a place of an array of numbers `field__0`.
"""

from __future__ import annotations

import ctypes

from amdsmi import amdsmi_wrapper

STRUCTURES = (
    "amdsmi_asic_info_t",
    "amdsmi_clk_info_t",
    "amdsmi_driver_info_t",
    "amdsmi_engine_usage_t",
    "amdsmi_enumeration_info_t",
    "amdsmi_error_count_t",
    "amdsmi_gpu_metrics_t",
    "amdsmi_p2p_capability_t",
    "amdsmi_pcie_info_t",
    "amdsmi_power_info_t",
    "amdsmi_proc_info_t",
    "amdsmi_retired_page_record_t",
    "amdsmi_vbios_info_t",
    "amdsmi_version_t",
    "amdsmi_xgmi_info_t",
    "amdsmi_xgmi_link_status_t",
)

HEAD = """
struct field { const char *name; size_t offset; size_t size; bool is_text; };
struct layout { size_t size; const struct field *fields; };
"""


def fields_of(structure, base=0, prefix=""):
    """(name, offset, size, whether it is text) of each field, flat."""
    for name, kind, *_ in structure._fields_:
        offset = base + getattr(structure, name).offset
        if issubclass(kind, ctypes.Structure):
            yield from fields_of(kind, offset, f"{prefix}{name}__")
        elif issubclass(kind, ctypes.Array) and kind._type_ is not ctypes.c_char:
            size = ctypes.sizeof(kind._type_)
            for place in range(kind._length_):
                yield f"{prefix}{name}__{place}", offset + place * size, size, 0
        else:
            yield prefix + name, offset, ctypes.sizeof(kind), int(issubclass(kind, ctypes.Array))


print(HEAD)
for structure_name in STRUCTURES:
    structure = getattr(amdsmi_wrapper, structure_name)
    print(f"static const struct field fields_{structure_name}[] = {{")
    for name, offset, size, is_text in fields_of(structure):
        if not name.startswith(("PADDING", "reserved")):
            print(f'    {{"{name}", {offset}, {size}, {is_text}}},')
    print("    {NULL, 0, 0, 0},\n};")
    size = ctypes.sizeof(structure)
    print(f"static const struct layout layout_{structure_name} = {{{size}, fields_{structure_name}}};")
print(f"#define OFFSET_OF_VERSION_BUILD {amdsmi_wrapper.amdsmi_version_t.build.offset}")
