"""The amdsmi functions that the fake library answers; every other one that the real module names is NOT_SUPPORTED there."""

from __future__ import annotations

INIT_CALL = "amdsmi_init"
HANDLES_CALL = "amdsmi_get_processor_handles"
BUS_ID_CALL = "amdsmi_get_gpu_device_bdf"

SYSTEM_CALLS = (INIT_CALL, HANDLES_CALL, "amdsmi_get_lib_version", "amdsmi_get_rocm_version")

GPU_CALLS = (
    BUS_ID_CALL,
    "amdsmi_get_clock_info",
    "amdsmi_get_gpu_activity",
    "amdsmi_get_gpu_asic_info",
    "amdsmi_get_gpu_bad_page_info",
    "amdsmi_get_gpu_compute_partition",
    "amdsmi_get_gpu_device_uuid",
    "amdsmi_get_gpu_driver_info",
    "amdsmi_get_gpu_ecc_enabled",
    "amdsmi_get_gpu_enumeration_info",
    "amdsmi_get_gpu_memory_partition",
    "amdsmi_get_gpu_memory_total",
    "amdsmi_get_gpu_memory_usage",
    "amdsmi_get_gpu_metrics_info",
    "amdsmi_get_gpu_process_list",
    "amdsmi_get_gpu_total_ecc_count",
    "amdsmi_get_gpu_vbios_info",
    "amdsmi_get_gpu_virtualization_mode",
    "amdsmi_get_gpu_xgmi_link_status",
    "amdsmi_get_pcie_info",
    "amdsmi_get_power_info",
    "amdsmi_get_temp_metric",
    "amdsmi_get_xgmi_info",
    "amdsmi_topo_get_numa_node_number",
)

PAIR_CALLS = (
    "amdsmi_get_minmax_bandwidth_between_processors",
    "amdsmi_is_P2P_accessible",
    "amdsmi_topo_get_link_type",
    "amdsmi_topo_get_link_weight",
    "amdsmi_topo_get_p2p_status",
)

CALLS = (*SYSTEM_CALLS, *GPU_CALLS, *PAIR_CALLS)
