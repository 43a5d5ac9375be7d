/*
 * A libamd_smi.so without GPUs, for tests: it answers from the text file that gpumond.simulate.amd_answers renders and
 * that the environment variable GPUMOND_FAKE_AMDSMI_ANSWERS names; without it, `libamd_smi.so.answers` beside it.
 *
 * What the real Python module asks for, beyond the functions below, is generated from that module when this is built
 * (`generated.h`): its other functions, which answer NOT_SUPPORTED, and the layouts of its structures, so that no layout
 * is written down here. A structure is filled field by field: `CALL.FIELD KEY 0 VALUE`.
 */

#define _GNU_SOURCE
#define ANSWERS_VARIABLE "GPUMOND_FAKE_AMDSMI_ANSWERS"

#include "../answers.h"
#include "generated.h" /* struct field, struct layout, the layouts, the functions that are not here */

enum {
    INVAL = 1,
    NOT_SUPPORTED = 2,
    INTERNAL_EXCEPTION = 16,
    NOT_INIT = 32,
    INSUFFICIENT_SIZE = 41,
};

enum { CLOCK_GFX = 0, TEMPERATURE_HOTSPOT = 1, TEMPERATURE_CURRENT = 0 };

typedef uint32_t status_t;

static struct gpu {
    unsigned int number;
} gpus[GPUS_MAX];
static unsigned int gpu_count;
static unsigned int initialisations;

/* ---- Shapes of answers ------------------------------------------------------------------------------------------ */

static status_t ask(const char *call, const char *key, const char **value)
{
    const struct answer *answer;

    *value = "";
    if (!initialisations)
        return NOT_INIT;
    if (answers_have_changed()) {
        forget_answers();
        load_answers();
    }
    answer = answer_of(call, key);
    if (!answer)
        return NOT_SUPPORTED;
    *value = answer->value;
    return (status_t)status_of(answer);
}

/* The key of a GPU, or why there is none: no initialisation, or no handle of ours. */
static status_t key_of(const struct gpu *gpu, char *key)
{
    if (!initialisations)
        return NOT_INIT;
    if (gpu < gpus || gpu >= gpus + gpu_count)
        return INVAL;
    snprintf(key, KEY_LENGTH_MAX, "%u", gpu->number);
    return 0;
}

static status_t pair_key_of(const struct gpu *gpu, const struct gpu *peer, char *key)
{
    char one[KEY_LENGTH_MAX], other[KEY_LENGTH_MAX];
    status_t status = key_of(gpu, one);

    if (!status)
        status = key_of(peer, other);
    if (!status)
        snprintf(key, KEY_LENGTH_MAX, "%.20s/%.20s", one, other);
    return status;
}

static status_t numbers_answer(const char *call, const char *key, unsigned long long *numbers, unsigned int count)
{
    const char *value;
    status_t status = ask(call, key, &value);

    if (status)
        return status;
    return numbers_in(value, numbers, count) < count ? INTERNAL_EXCEPTION : 0;
}

static void fill(const char *call, const char *key, void *out, const struct layout *layout)
{
    memset(out, 0, layout->size);
    for (const struct field *field = layout->fields; field->name; field++) {
        char name[LINE_LENGTH_MAX];
        const struct answer *answer;
        char *place = (char *)out + field->offset;

        snprintf(name, sizeof(name), "%s.%s", call, field->name);
        answer = find(name, key);
        if (!answer)
            continue;
        if (field->is_text) {
            snprintf(place, field->size, "%s", answer->value);
        } else {
            unsigned long long number = strtoull(answer->value, NULL, 10);

            memcpy(place, &number, field->size); /* little-endian, as every host of these GPUs */
        }
    }
}

static status_t struct_answer(const char *call, const char *key, void *out, const struct layout *layout)
{
    const char *value;
    status_t status = ask(call, key, &value);

    if (!status)
        fill(call, key, out, layout);
    return status;
}

static status_t text_answer(const char *call, const char *key, char *buffer, uint32_t length)
{
    const char *value;
    status_t status = ask(call, key, &value);

    if (status)
        return status;
    if (!buffer || strlen(value) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, value);
    return 0;
}

#define GPU_STRUCT(call, layout)                                                                                       \
    EXPORT status_t call(struct gpu *gpu, void *out)                                                                   \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        status_t status = key_of(gpu, key);                                                                            \
                                                                                                                       \
        return status ? status : struct_answer(#call, key, out, &layout);                                              \
    }

#define GPU_NUMBER(call, type)                                                                                         \
    EXPORT status_t call(struct gpu *gpu, type *out)                                                                   \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        unsigned long long number;                                                                                     \
        status_t status = key_of(gpu, key);                                                                            \
                                                                                                                       \
        if (!status)                                                                                                   \
            status = numbers_answer(#call, key, &number, 1);                                                           \
        if (!status)                                                                                                   \
            *out = (type)number;                                                                                       \
        return status;                                                                                                 \
    }

/* Only VRAM is ever asked for. */
#define GPU_MEMORY(call)                                                                                               \
    EXPORT status_t call(struct gpu *gpu, uint32_t kind, uint64_t *out)                                                \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        unsigned long long number;                                                                                     \
        status_t status = key_of(gpu, key);                                                                            \
                                                                                                                       \
        if (!status && kind != 0)                                                                                      \
            status = INVAL;                                                                                            \
        if (!status)                                                                                                   \
            status = numbers_answer(#call, key, &number, 1);                                                           \
        if (!status)                                                                                                   \
            *out = number;                                                                                             \
        return status;                                                                                                 \
    }

#define GPU_TEXT(call)                                                                                                 \
    EXPORT status_t call(struct gpu *gpu, char *buffer, uint32_t length)                                               \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        status_t status = key_of(gpu, key);                                                                            \
                                                                                                                       \
        return status ? status : text_answer(#call, key, buffer, length);                                              \
    }

/* ---- Life cycle ------------------------------------------------------------------------------------------------- */

EXPORT status_t amdsmi_init(uint64_t flags)
{
    const struct answer *answer;
    status_t status;

    (void)flags;
    if (!initialisations) {
        unsigned long long numbers[GPUS_MAX];

        if (!load_answers())
            return INTERNAL_EXCEPTION;
        answer = find("amdsmi_init", SYSTEM_KEY);
        status = answer ? (status_t)status_of(answer) : INTERNAL_EXCEPTION;
        if (status) {
            forget_answers();
            return status;
        }
        answer = find("amdsmi_get_processor_handles", SYSTEM_KEY);
        gpu_count = answer ? numbers_in(answer->value, numbers, GPUS_MAX) : 0;
        for (unsigned int place = 0; place < gpu_count && place < GPUS_MAX; place++)
            gpus[place].number = (unsigned int)numbers[place];
    }
    initialisations++;
    return 0;
}

EXPORT status_t amdsmi_shut_down(void)
{
    if (!initialisations)
        return NOT_INIT;
    if (--initialisations == 0)
        forget_answers();
    return 0;
}

/* One socket a GPU; a socket's handle is its GPU's. */
EXPORT status_t amdsmi_get_socket_handles(uint32_t *count, void **handles)
{
    const char *value;
    status_t status = ask("amdsmi_get_processor_handles", SYSTEM_KEY, &value);

    if (status)
        return status;
    if (handles) {
        if (*count < gpu_count)
            return INSUFFICIENT_SIZE;
        for (unsigned int place = 0; place < gpu_count; place++)
            handles[place] = &gpus[place];
    }
    *count = gpu_count;
    return 0;
}

EXPORT status_t amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles)
{
    char key[KEY_LENGTH_MAX];
    status_t status = key_of(socket, key);

    if (!status && handles)
        handles[0] = socket;
    *count = 1;
    return status;
}

EXPORT status_t amdsmi_get_lib_version(void *out)
{
    static char build[] = "0";
    char *pointer = build;
    status_t status = struct_answer("amdsmi_get_lib_version", SYSTEM_KEY, out, &layout_amdsmi_version_t);

    if (!status)
        memcpy((char *)out + OFFSET_OF_VERSION_BUILD, &pointer, sizeof(pointer));
    return status;
}

/* librocm-core.so has this one; there it is a link to this library. */
EXPORT uint32_t getROCmVersion(uint32_t *major, uint32_t *minor, uint32_t *patch)
{
    unsigned long long numbers[3];
    status_t status = numbers_answer("amdsmi_get_rocm_version", SYSTEM_KEY, numbers, 3);

    if (status)
        return status;
    *major = (uint32_t)numbers[0];
    *minor = (uint32_t)numbers[1];
    *patch = (uint32_t)numbers[2];
    return 0;
}

/* ---- One GPU ---------------------------------------------------------------------------------------------------- */

GPU_STRUCT(amdsmi_get_gpu_asic_info, layout_amdsmi_asic_info_t)
GPU_STRUCT(amdsmi_get_gpu_vbios_info, layout_amdsmi_vbios_info_t)
GPU_STRUCT(amdsmi_get_gpu_driver_info, layout_amdsmi_driver_info_t)
GPU_STRUCT(amdsmi_get_gpu_enumeration_info, layout_amdsmi_enumeration_info_t)
GPU_STRUCT(amdsmi_get_gpu_activity, layout_amdsmi_engine_usage_t)
GPU_STRUCT(amdsmi_get_gpu_total_ecc_count, layout_amdsmi_error_count_t)
GPU_STRUCT(amdsmi_get_gpu_metrics_info, layout_amdsmi_gpu_metrics_t)
GPU_STRUCT(amdsmi_get_power_info, layout_amdsmi_power_info_t)
GPU_STRUCT(amdsmi_get_pcie_info, layout_amdsmi_pcie_info_t)
GPU_STRUCT(amdsmi_get_xgmi_info, layout_amdsmi_xgmi_info_t)
GPU_STRUCT(amdsmi_get_gpu_xgmi_link_status, layout_amdsmi_xgmi_link_status_t)

GPU_NUMBER(amdsmi_get_gpu_device_bdf, uint64_t)
GPU_NUMBER(amdsmi_get_gpu_ecc_enabled, uint64_t)
GPU_NUMBER(amdsmi_get_gpu_virtualization_mode, uint32_t)
GPU_NUMBER(amdsmi_topo_get_numa_node_number, uint32_t)

GPU_MEMORY(amdsmi_get_gpu_memory_total)
GPU_MEMORY(amdsmi_get_gpu_memory_usage)

GPU_TEXT(amdsmi_get_gpu_compute_partition)
GPU_TEXT(amdsmi_get_gpu_memory_partition)

EXPORT status_t amdsmi_get_gpu_device_uuid(struct gpu *gpu, uint32_t *length, char *buffer)
{
    char key[KEY_LENGTH_MAX];
    status_t status = key_of(gpu, key);

    return status ? status : text_answer("amdsmi_get_gpu_device_uuid", key, buffer, *length);
}

/* Only the clock of the compute units is ever asked for. */
EXPORT status_t amdsmi_get_clock_info(struct gpu *gpu, uint32_t kind, void *out)
{
    char key[KEY_LENGTH_MAX];
    status_t status = key_of(gpu, key);

    if (!status && kind != CLOCK_GFX)
        status = INVAL;
    return status ? status : struct_answer("amdsmi_get_clock_info", key, out, &layout_amdsmi_clk_info_t);
}

/* Only the temperature of the hottest place, now. */
EXPORT status_t amdsmi_get_temp_metric(struct gpu *gpu, uint32_t sensor, uint32_t metric, int64_t *celsius)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long number;
    status_t status = key_of(gpu, key);

    if (!status && (sensor != TEMPERATURE_HOTSPOT || metric != TEMPERATURE_CURRENT))
        status = INVAL;
    if (!status)
        status = numbers_answer("amdsmi_get_temp_metric", key, &number, 1);
    if (!status)
        *celsius = (int64_t)number;
    return status;
}

EXPORT status_t amdsmi_get_gpu_bad_page_info(struct gpu *gpu, uint32_t *count, void *pages)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long number;
    status_t status = key_of(gpu, key);

    if (!status)
        status = numbers_answer("amdsmi_get_gpu_bad_page_info", key, &number, 1);
    if (status)
        return status;
    for (unsigned int place = 0; pages && place < number && place < *count; place++) {
        snprintf(key, sizeof(key), "%u/%u", gpu->number, place);
        fill("amdsmi_get_gpu_bad_page_info", key,
             (char *)pages + place * layout_amdsmi_retired_page_record_t.size, &layout_amdsmi_retired_page_record_t);
    }
    *count = (uint32_t)number;
    return 0;
}

EXPORT status_t amdsmi_get_gpu_process_list(struct gpu *gpu, uint32_t *count, void *processes)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long number;
    status_t status = key_of(gpu, key);

    if (!status)
        status = numbers_answer("amdsmi_get_gpu_process_list", key, &number, 1);
    if (status)
        return status;
    if (*count < number)
        return INSUFFICIENT_SIZE;
    for (unsigned int place = 0; place < number; place++) {
        snprintf(key, sizeof(key), "%u/%u", gpu->number, place);
        fill("amdsmi_get_gpu_process_list", key, (char *)processes + place * layout_amdsmi_proc_info_t.size,
             &layout_amdsmi_proc_info_t);
    }
    *count = (uint32_t)number;
    return 0;
}

/* ---- Two GPUs --------------------------------------------------------------------------------------------------- */

EXPORT status_t amdsmi_topo_get_link_type(struct gpu *gpu, struct gpu *peer, uint64_t *hops, uint32_t *type)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long numbers[2];
    status_t status = pair_key_of(gpu, peer, key);

    if (!status)
        status = numbers_answer("amdsmi_topo_get_link_type", key, numbers, 2);
    if (status)
        return status;
    *hops = numbers[0];
    *type = (uint32_t)numbers[1];
    return 0;
}

EXPORT status_t amdsmi_topo_get_link_weight(struct gpu *gpu, struct gpu *peer, uint64_t *weight)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long number;
    status_t status = pair_key_of(gpu, peer, key);

    if (!status)
        status = numbers_answer("amdsmi_topo_get_link_weight", key, &number, 1);
    if (!status)
        *weight = number;
    return status;
}

EXPORT status_t amdsmi_get_minmax_bandwidth_between_processors(struct gpu *gpu, struct gpu *peer, uint64_t *minimum,
                                                               uint64_t *maximum)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long numbers[2];
    status_t status = pair_key_of(gpu, peer, key);

    if (!status)
        status = numbers_answer("amdsmi_get_minmax_bandwidth_between_processors", key, numbers, 2);
    if (status)
        return status;
    *minimum = numbers[0];
    *maximum = numbers[1];
    return 0;
}

EXPORT status_t amdsmi_is_P2P_accessible(struct gpu *gpu, struct gpu *peer, bool *accessible)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long number;
    status_t status = pair_key_of(gpu, peer, key);

    if (!status)
        status = numbers_answer("amdsmi_is_P2P_accessible", key, &number, 1);
    if (!status)
        *accessible = number != 0;
    return status;
}

EXPORT status_t amdsmi_topo_get_p2p_status(struct gpu *gpu, struct gpu *peer, uint32_t *type, void *capabilities)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long number;
    status_t status = pair_key_of(gpu, peer, key);

    if (!status)
        status = numbers_answer("amdsmi_topo_get_p2p_status", key, &number, 1);
    if (status)
        return status;
    *type = (uint32_t)number;
    fill("amdsmi_topo_get_p2p_status", key, capabilities, &layout_amdsmi_p2p_capability_t);
    return 0;
}
