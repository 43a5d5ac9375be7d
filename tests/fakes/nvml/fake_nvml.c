/*
 * A libnvidia-ml.so.1 without GPUs, for tests: it answers from the text file that gpumond.simulate.nvml_answers renders
 * and that the environment variable GPUMOND_FAKE_NVML_ANSWERS names; without it, `libnvidia-ml.so.1.answers` beside it.
 *
 * What it knows itself is what a caller can get wrong: struct layouts and their versions, buffer sizes, handles, the
 * order of calls, the reference count of initialisations. The values, and which calls fail, hang or crash, stand in
 * the file. Layouts follow NVIDIA's public header; the names are the ABI.
 */

#define _GNU_SOURCE
#define ANSWERS_VARIABLE "GPUMOND_FAKE_NVML_ANSWERS"

#include "../answers.h"

#include <sys/time.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

typedef int status_t;

/* ---- The answers ------------------------------------------------------------------------------------------------ */

struct gpu {
    unsigned int number;
};

static unsigned int initialisations;
static struct gpu gpus[GPUS_MAX];
static unsigned int gpu_count;
static pthread_mutex_t lifecycle = PTHREAD_MUTEX_INITIALIZER;

static unsigned int system_number(const char *name);

static void forget(void)
{
    forget_answers();
    gpu_count = 0;
}

/* For whoever has the library open while the host changes: a process came, a link broke. For callers of one thread; the
 * values of earlier calls are gone. */
static void follow_changes(void)
{
    if (!answers_have_changed())
        return;
    forget();
    load_answers();
    gpu_count = system_number("nvmlDeviceGetCount_v2");
}

static status_t ask(const char *call, const char *key, const char **value)
{
    const struct answer *answer;

    *value = "";
    if (!initialisations)
        return UNINITIALIZED;
    follow_changes();
    answer = answer_of(call, key);
    if (!answer)
        return NOT_SUPPORTED;
    *value = answer->value;
    return (status_t)status_of(answer);
}

static unsigned int system_number(const char *name)
{
    const struct answer *answer = find(name, SYSTEM_KEY);

    return answer ? (unsigned int)strtoul(answer->value, NULL, 10) : 0;
}

/* ---- Life cycle ------------------------------------------------------------------------------------------------- */

static status_t initialise(const char *call)
{
    status_t status = SUCCESS;

    pthread_mutex_lock(&lifecycle);
    if (!initialisations) {
        if (load_answers()) {
            const struct answer *answer = find(call, SYSTEM_KEY);

            status = answer ? (status_t)status_of(answer) : UNKNOWN;
        } else {
            status = UNKNOWN;
        }
        if (status == SUCCESS) {
            gpu_count = system_number("nvmlDeviceGetCount_v2");
            if (gpu_count > GPUS_MAX)
                gpu_count = GPUS_MAX;
            for (unsigned int number = 0; number < gpu_count; number++)
                gpus[number].number = number;
        } else {
            forget();
        }
    }
    if (status == SUCCESS)
        initialisations++;
    pthread_mutex_unlock(&lifecycle);
    return status;
}

EXPORT status_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return initialise("nvmlInitWithFlags");
}

EXPORT status_t nvmlInit_v2(void)
{
    return initialise("nvmlInit_v2");
}

EXPORT status_t nvmlShutdown(void)
{
    status_t status = SUCCESS;

    pthread_mutex_lock(&lifecycle);
    if (!initialisations)
        status = UNINITIALIZED;
    else if (--initialisations == 0)
        forget();
    pthread_mutex_unlock(&lifecycle);
    return status;
}

EXPORT const char *nvmlErrorString(status_t status)
{
    static const struct {
        status_t status;
        const char *text;
    } texts[] = {
        {0, "Success"},
        {1, "Uninitialized"},
        {2, "Invalid Argument"},
        {3, "Not Supported"},
        {4, "Insufficient Permissions"},
        {6, "Not Found"},
        {7, "Insufficient Size"},
        {9, "Driver Not Loaded"},
        {10, "Timeout"},
        {13, "Function Not Found"},
        {15, "GPU is lost"},
        {16, "GPU requires reset"},
        {17, "The operating system has blocked the request"},
        {18, "Driver/library version mismatch"},
        {19, "In use by another client"},
        {20, "Insufficient Memory"},
        {21, "No data"},
        {23, "Insufficient Resources"},
        {25, "Argument version mismatch"},
        {26, "Deprecated"},
        {27, "Not ready"},
        {28, "GPU not found"},
    };

    for (size_t index = 0; index < sizeof(texts) / sizeof(*texts); index++) {
        if (texts[index].status == status)
            return texts[index].text;
    }
    return "Unknown Error";
}

/* ---- Shapes of answers ------------------------------------------------------------------------------------------ */

/* The key of a GPU, or why there is none: no initialisation, or no handle of ours. */
static status_t key_of(const struct gpu *gpu, char *key)
{
    if (!initialisations)
        return UNINITIALIZED;
    if (gpu < gpus || gpu >= gpus + gpu_count)
        return INVALID_ARGUMENT;
    snprintf(key, KEY_LENGTH_MAX, "%u", gpu->number);
    return SUCCESS;
}

static status_t text_answer(const char *call, const char *key, char *buffer, unsigned int length)
{
    const char *value;
    status_t status = ask(call, key, &value);

    if (status != SUCCESS)
        return status;
    if (!buffer)
        return INVALID_ARGUMENT;
    if (strlen(value) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, value);
    return SUCCESS;
}

/* Up to four numbers; a value with fewer is a mistake in the file. */
static status_t number_answer(const char *call, const char *key, unsigned long long *numbers, unsigned int count)
{
    const char *value;
    status_t status = ask(call, key, &value);

    if (status != SUCCESS)
        return status;
    return numbers_in(value, numbers, count) < count ? UNKNOWN : SUCCESS;
}

#define SYSTEM_TEXT(call)                                                                                              \
    EXPORT status_t call(char *buffer, unsigned int length)                                                            \
    {                                                                                                                  \
        return text_answer(#call, SYSTEM_KEY, buffer, length);                                                         \
    }

#define SYSTEM_NUMBER(call, type)                                                                                      \
    EXPORT status_t call(type *result)                                                                                 \
    {                                                                                                                  \
        unsigned long long number;                                                                                     \
        status_t status = number_answer(#call, SYSTEM_KEY, &number, 1);                                                \
                                                                                                                       \
        if (status == SUCCESS)                                                                                         \
            *result = (type)number;                                                                                    \
        return status;                                                                                                 \
    }

#define GPU_TEXT(call)                                                                                                 \
    EXPORT status_t call(struct gpu *gpu, char *buffer, unsigned int length)                                           \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        status_t status = key_of(gpu, key);                                                                            \
                                                                                                                       \
        return status != SUCCESS ? status : text_answer(#call, key, buffer, length);                                   \
    }

#define GPU_NUMBER(call, type)                                                                                         \
    EXPORT status_t call(struct gpu *gpu, type *result)                                                                \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        unsigned long long number;                                                                                     \
        status_t status = key_of(gpu, key);                                                                            \
                                                                                                                       \
        if (status == SUCCESS)                                                                                         \
            status = number_answer(#call, key, &number, 1);                                                            \
        if (status == SUCCESS)                                                                                         \
            *result = (type)number;                                                                                    \
        return status;                                                                                                 \
    }

/* A setting now, and what it will be after the next reset. */
#define GPU_MODE(call)                                                                                                 \
    EXPORT status_t call(struct gpu *gpu, unsigned int *current, unsigned int *pending)                                \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        unsigned long long numbers[2];                                                                                 \
        status_t status = key_of(gpu, key);                                                                            \
                                                                                                                       \
        if (status == SUCCESS)                                                                                         \
            status = number_answer(#call, key, numbers, 2);                                                            \
        if (status != SUCCESS)                                                                                         \
            return status;                                                                                             \
        *current = (unsigned int)numbers[0];                                                                           \
        *pending = (unsigned int)numbers[1];                                                                           \
        return SUCCESS;                                                                                                \
    }

#define GPU_NUMBER_OF(call, kind_type, type)                                                                           \
    EXPORT status_t call(struct gpu *gpu, kind_type kind, type *result)                                                \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        unsigned long long number;                                                                                     \
        status_t status = key_of(gpu, key);                                                                            \
                                                                                                                       \
        if (status != SUCCESS)                                                                                         \
            return status;                                                                                             \
        snprintf(key, sizeof(key), "%u/%u", gpu->number, (unsigned int)kind);                                          \
        status = number_answer(#call, key, &number, 1);                                                                \
        if (status == SUCCESS)                                                                                         \
            *result = (type)number;                                                                                    \
        return status;                                                                                                 \
    }

SYSTEM_TEXT(nvmlSystemGetDriverVersion)
SYSTEM_TEXT(nvmlSystemGetNVMLVersion)
SYSTEM_NUMBER(nvmlSystemGetCudaDriverVersion, int)
SYSTEM_NUMBER(nvmlSystemGetCudaDriverVersion_v2, int)
SYSTEM_NUMBER(nvmlDeviceGetCount_v2, unsigned int)
SYSTEM_NUMBER(nvmlGetExcludedDeviceCount, unsigned int)

GPU_TEXT(nvmlDeviceGetUUID)
GPU_TEXT(nvmlDeviceGetName)
GPU_TEXT(nvmlDeviceGetSerial)
GPU_TEXT(nvmlDeviceGetVbiosVersion)
GPU_TEXT(nvmlDeviceGetInforomImageVersion)
GPU_TEXT(nvmlDeviceGetBoardPartNumber)

GPU_NUMBER(nvmlDeviceGetIndex, unsigned int)
GPU_NUMBER(nvmlDeviceGetMinorNumber, unsigned int)
GPU_NUMBER(nvmlDeviceGetModuleId, unsigned int)
GPU_NUMBER(nvmlDeviceGetBrand, unsigned int)
GPU_NUMBER(nvmlDeviceGetArchitecture, unsigned int)
GPU_NUMBER(nvmlDeviceGetNumaNodeId, int)
GPU_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int)
GPU_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int)
GPU_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int)
GPU_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int)
GPU_NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int)
GPU_NUMBER(nvmlDeviceGetPcieSpeed, unsigned int)
GPU_NUMBER(nvmlDeviceGetPcieLinkMaxSpeed, unsigned int)
GPU_NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned int)
GPU_NUMBER(nvmlDeviceGetPersistenceMode, unsigned int)
GPU_NUMBER(nvmlDeviceGetPowerUsage, unsigned int)
GPU_NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned int)
GPU_NUMBER(nvmlDeviceGetComputeMode, unsigned int)
GPU_NUMBER(nvmlDeviceGetVirtualizationMode, unsigned int)
GPU_NUMBER(nvmlDeviceGetPerformanceState, unsigned int)
GPU_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
GPU_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long)
GPU_NUMBER(nvmlDeviceGetSupportedEventTypes, unsigned long long)

GPU_MODE(nvmlDeviceGetMigMode)
GPU_MODE(nvmlDeviceGetEccMode)

GPU_NUMBER_OF(nvmlDeviceGetTemperature, unsigned int, unsigned int)
GPU_NUMBER_OF(nvmlDeviceGetClockInfo, unsigned int, unsigned int)
GPU_NUMBER_OF(nvmlDeviceGetApplicationsClock, unsigned int, unsigned int)

/* ---- Handles ---------------------------------------------------------------------------------------------------- */

static status_t open_gpu(const char *call, unsigned int number, struct gpu **handle)
{
    char key[KEY_LENGTH_MAX];
    const char *value;
    status_t status;

    snprintf(key, sizeof(key), "%u", number);
    status = ask(call, key, &value);
    if (status == SUCCESS)
        *handle = &gpus[number];
    return status;
}

EXPORT status_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct gpu **handle)
{
    if (!initialisations)
        return UNINITIALIZED;
    if (!handle || index >= gpu_count)
        return INVALID_ARGUMENT;
    return open_gpu(__func__, index, handle);
}

EXPORT status_t nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **handle)
{
    if (!initialisations)
        return UNINITIALIZED;
    if (!handle || !uuid)
        return INVALID_ARGUMENT;
    for (unsigned int number = 0; number < gpu_count; number++) {
        char key[KEY_LENGTH_MAX];
        const struct answer *answer;

        snprintf(key, sizeof(key), "%u", number);
        answer = find("nvmlDeviceGetUUID", key);
        if (answer && strcmp(answer->value, uuid) == 0)
            return open_gpu(__func__, number, handle);
    }
    return NOT_FOUND;
}

/* "domain:bus:device.function", "domain:bus:device" or "bus:device.function", in any case, any number of leading zeros. */
static bool parse_pci(const char *text, unsigned int *domain, unsigned int *bus, unsigned int *device)
{
    unsigned int function;

    if (sscanf(text, "%x:%x:%x.%x", domain, bus, device, &function) >= 3)
        return true;
    *domain = 0;
    return sscanf(text, "%x:%x.%x", bus, device, &function) == 3;
}

EXPORT status_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct gpu **handle)
{
    unsigned int domain, bus, device;

    if (!initialisations)
        return UNINITIALIZED;
    if (!handle || !bus_id || !parse_pci(bus_id, &domain, &bus, &device))
        return INVALID_ARGUMENT;
    for (unsigned int number = 0; number < gpu_count; number++) {
        char key[KEY_LENGTH_MAX];
        const struct answer *answer;
        unsigned int ours[3];

        snprintf(key, sizeof(key), "%u", number);
        answer = find("nvmlDeviceGetPciInfo_v3", key);
        if (answer && parse_pci(answer->value, &ours[0], &ours[1], &ours[2]) && ours[0] == domain && ours[1] == bus &&
            ours[2] == device)
            return open_gpu(__func__, number, handle);
    }
    return NOT_FOUND;
}

/* ---- PCI -------------------------------------------------------------------------------------------------------- */

struct pci_info {
    char legacy_bus_id[16];
    unsigned int domain, bus, device;
    unsigned int device_id, subsystem_id;
    char bus_id[32];
};
_Static_assert(sizeof(struct pci_info) == 68, "nvmlPciInfo_t");

static status_t pci_answer(const char *call, const char *key, struct pci_info *info)
{
    const char *value;
    status_t status = ask(call, key, &value);
    struct pci_info found;

    if (status != SUCCESS)
        return status;
    memset(&found, 0, sizeof(found));
    if (sscanf(value, "%31s %15s %u %u %u %u %u", found.bus_id, found.legacy_bus_id, &found.domain, &found.bus,
               &found.device, &found.device_id, &found.subsystem_id) != 7)
        return UNKNOWN;
    *info = found;
    return SUCCESS;
}

EXPORT status_t nvmlDeviceGetPciInfo_v3(struct gpu *gpu, struct pci_info *info)
{
    char key[KEY_LENGTH_MAX];
    status_t status = key_of(gpu, key);

    return status != SUCCESS ? status : pci_answer(__func__, key, info);
}

struct pci_info_ext {
    unsigned int version;
    unsigned int domain, bus, device;
    unsigned int device_id, subsystem_id;
    unsigned int base_class, sub_class;
    char bus_id[32];
};
_Static_assert(sizeof(struct pci_info_ext) == 0x40, "nvmlPciInfoExt_v1_t");

EXPORT status_t nvmlDeviceGetPciInfoExt(struct gpu *gpu, struct pci_info_ext *ext)
{
    char key[KEY_LENGTH_MAX];
    struct pci_info info;
    status_t status = key_of(gpu, key);

    if (status != SUCCESS)
        return status;
    if (ext->version != 0x1000040)
        return ARGUMENT_VERSION_MISMATCH;
    status = pci_answer("nvmlDeviceGetPciInfo_v3", key, &info);
    if (status != SUCCESS)
        return status;
    ext->domain = info.domain;
    ext->bus = info.bus;
    ext->device = info.device;
    ext->device_id = info.device_id;
    ext->subsystem_id = info.subsystem_id;
    ext->base_class = 3; /* display controller, */
    ext->sub_class = 2;  /* without a display */
    memcpy(ext->bus_id, info.bus_id, sizeof(ext->bus_id));
    return SUCCESS;
}

/* ---- Memory, use, processes ------------------------------------------------------------------------------------- */

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};
_Static_assert(sizeof(struct memory_v2) == 0x28, "nvmlMemory_v2_t");

static status_t memory_answer(const char *call, struct gpu *gpu, struct memory *memory)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long numbers[3];
    status_t status = key_of(gpu, key);

    if (status == SUCCESS)
        status = number_answer(call, key, numbers, 3);
    if (status == SUCCESS)
        *memory = (struct memory){numbers[0], numbers[1], numbers[2]};
    return status;
}

EXPORT status_t nvmlDeviceGetMemoryInfo(struct gpu *gpu, struct memory *memory)
{
    return memory_answer(__func__, gpu, memory);
}

EXPORT status_t nvmlDeviceGetConfComputeProtectedMemoryUsage(struct gpu *gpu, struct memory *memory)
{
    return memory_answer(__func__, gpu, memory);
}

EXPORT status_t nvmlDeviceGetMemoryInfo_v2(struct gpu *gpu, struct memory_v2 *memory)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long numbers[4];
    status_t status = key_of(gpu, key);

    if (status != SUCCESS)
        return status;
    if (memory->version != 0x02000028)
        return ARGUMENT_VERSION_MISMATCH;
    status = number_answer(__func__, key, numbers, 4);
    if (status == SUCCESS)
        *memory = (struct memory_v2){memory->version, numbers[0], numbers[1], numbers[2], numbers[3]};
    return status;
}

struct utilisation {
    unsigned int gpu, memory;
};

EXPORT status_t nvmlDeviceGetUtilizationRates(struct gpu *gpu, struct utilisation *utilisation)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long numbers[2];
    status_t status = key_of(gpu, key);

    if (status == SUCCESS)
        status = number_answer(__func__, key, numbers, 2);
    if (status == SUCCESS)
        *utilisation = (struct utilisation){(unsigned int)numbers[0], (unsigned int)numbers[1]};
    return status;
}

struct process {
    unsigned int pid;
    unsigned long long used_memory;
    unsigned int gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct process) == 24, "nvmlProcessInfo_t");

#define NO_INSTANCE 0xFFFFFFFFu
#define PROCESSES_MAX 256

/* Asked with too small an array, it tells the count that it needs. */
static status_t process_answer(const char *call, struct gpu *gpu, unsigned int *count, struct process *processes)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long numbers[2 * PROCESSES_MAX];
    const char *value;
    unsigned int found, room;
    status_t status = key_of(gpu, key);

    if (status == SUCCESS)
        status = ask(call, key, &value);
    if (status != SUCCESS)
        return status;
    if (!count)
        return INVALID_ARGUMENT;
    found = numbers_in(value, numbers, 2 * PROCESSES_MAX) / 2;
    room = *count;
    *count = found;
    if (found > room)
        return INSUFFICIENT_SIZE;
    for (unsigned int index = 0; index < found; index++)
        processes[index] = (struct process){(unsigned int)numbers[2 * index], numbers[2 * index + 1], NO_INSTANCE,
                                            NO_INSTANCE};
    return SUCCESS;
}

#define GPU_PROCESSES(call)                                                                                            \
    EXPORT status_t call(struct gpu *gpu, unsigned int *count, struct process *processes)                              \
    {                                                                                                                  \
        return process_answer(#call, gpu, count, processes);                                                           \
    }

GPU_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2)
GPU_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)
GPU_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
GPU_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
GPU_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
GPU_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

/* ---- Placement -------------------------------------------------------------------------------------------------- */

#define MASK_WORDS_MAX 128

static status_t mask_answer(const char *call, struct gpu *gpu, unsigned int count, unsigned long *words)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long numbers[MASK_WORDS_MAX];
    const char *value;
    unsigned int found;
    status_t status = key_of(gpu, key);

    if (status == SUCCESS)
        status = ask(call, key, &value);
    if (status != SUCCESS)
        return status;
    if (!words || !count)
        return INVALID_ARGUMENT;
    found = numbers_in(value, numbers, MASK_WORDS_MAX);
    if (found > count)
        return INSUFFICIENT_SIZE;
    memset(words, 0, count * sizeof(*words));
    for (unsigned int index = 0; index < found; index++)
        words[index] = (unsigned long)numbers[index];
    return SUCCESS;
}

EXPORT status_t nvmlDeviceGetCpuAffinity(struct gpu *gpu, unsigned int count, unsigned long *words)
{
    return mask_answer(__func__, gpu, count, words);
}

EXPORT status_t nvmlDeviceGetCpuAffinityWithinScope(struct gpu *gpu, unsigned int count, unsigned long *words,
                                                    unsigned int scope)
{
    return scope > 1 ? INVALID_ARGUMENT : mask_answer(__func__, gpu, count, words);
}

EXPORT status_t nvmlDeviceGetMemoryAffinity(struct gpu *gpu, unsigned int count, unsigned long *words,
                                            unsigned int scope)
{
    return scope > 1 ? INVALID_ARGUMENT : mask_answer(__func__, gpu, count, words);
}

/* ---- Pairs ------------------------------------------------------------------------------------------------------ */

static status_t pair_key(struct gpu *gpu, struct gpu *peer, char *key)
{
    status_t status = key_of(gpu, key);

    if (status == SUCCESS)
        status = key_of(peer, key);
    if (status == SUCCESS && gpu == peer)
        status = INVALID_ARGUMENT;
    return status;
}

EXPORT status_t nvmlDeviceGetTopologyCommonAncestor(struct gpu *gpu, struct gpu *peer, unsigned int *level)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long number;
    status_t status = pair_key(gpu, peer, key);

    if (status != SUCCESS)
        return status;
    snprintf(key, sizeof(key), "%u/%u", gpu->number, peer->number);
    status = number_answer(__func__, key, &number, 1);
    if (status == SUCCESS)
        *level = (unsigned int)number;
    return status;
}

EXPORT status_t nvmlDeviceGetP2PStatus(struct gpu *gpu, struct gpu *peer, unsigned int capability, unsigned int *result)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long number;
    status_t status = pair_key(gpu, peer, key);

    if (status != SUCCESS)
        return status;
    if (capability > 5)
        return INVALID_ARGUMENT;
    snprintf(key, sizeof(key), "%u/%u/%u", gpu->number, peer->number, capability);
    status = number_answer(__func__, key, &number, 1);
    if (status == SUCCESS)
        *result = (unsigned int)number;
    return status;
}

/* ---- NVLink ----------------------------------------------------------------------------------------------------- */

static status_t link_key(struct gpu *gpu, unsigned int link, char *key)
{
    status_t status = key_of(gpu, key);

    if (status == SUCCESS && link >= system_number("nvlinks_max"))
        status = INVALID_ARGUMENT;
    if (status == SUCCESS)
        snprintf(key, KEY_LENGTH_MAX, "%u/%u", gpu->number, link);
    return status;
}

#define LINK_NUMBER(call)                                                                                              \
    EXPORT status_t call(struct gpu *gpu, unsigned int link, unsigned int *result)                                     \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        unsigned long long number;                                                                                     \
        status_t status = link_key(gpu, link, key);                                                                    \
                                                                                                                       \
        if (status == SUCCESS)                                                                                         \
            status = number_answer(#call, key, &number, 1);                                                            \
        if (status == SUCCESS)                                                                                         \
            *result = (unsigned int)number;                                                                            \
        return status;                                                                                                 \
    }

#define LINK_NUMBER_OF(call, type)                                                                                     \
    EXPORT status_t call(struct gpu *gpu, unsigned int link, unsigned int kind, type *result)                          \
    {                                                                                                                  \
        char key[KEY_LENGTH_MAX];                                                                                      \
        unsigned long long number;                                                                                     \
        status_t status = link_key(gpu, link, key);                                                                    \
                                                                                                                       \
        if (status != SUCCESS)                                                                                         \
            return status;                                                                                             \
        snprintf(key, sizeof(key), "%u/%u/%u", gpu->number, link, kind);                                               \
        status = number_answer(#call, key, &number, 1);                                                                \
        if (status == SUCCESS)                                                                                         \
            *result = (type)number;                                                                                    \
        return status;                                                                                                 \
    }

LINK_NUMBER(nvmlDeviceGetNvLinkState)
LINK_NUMBER(nvmlDeviceGetNvLinkVersion)
LINK_NUMBER(nvmlDeviceGetNvLinkRemoteDeviceType)
LINK_NUMBER_OF(nvmlDeviceGetNvLinkCapability, unsigned int)
LINK_NUMBER_OF(nvmlDeviceGetNvLinkErrorCounter, unsigned long long)

EXPORT status_t nvmlDeviceGetNvLinkRemotePciInfo_v2(struct gpu *gpu, unsigned int link, struct pci_info *info)
{
    char key[KEY_LENGTH_MAX];
    status_t status = link_key(gpu, link, key);

    return status != SUCCESS ? status : pci_answer(__func__, key, info);
}

/* ---- Fabric ----------------------------------------------------------------------------------------------------- */

struct fabric_v1 {
    unsigned char cluster_uuid[16];
    status_t status;
    unsigned int clique;
    unsigned char state;
};

struct fabric {
    unsigned int version;
    unsigned char cluster_uuid[16];
    status_t status;
    unsigned int clique;
    unsigned char state;
    unsigned int health_mask;
    unsigned char health_summary; /* third version only */
};
_Static_assert(offsetof(struct fabric, health_summary) == 36 && sizeof(struct fabric) == 40, "nvmlGpuFabricInfo_v3_t");

static status_t fabric_answer(const char *call, struct gpu *gpu, struct fabric *fabric)
{
    char key[KEY_LENGTH_MAX], uuid[33] = "";
    unsigned int state, summary;
    const char *value;
    status_t status = key_of(gpu, key);

    if (status == SUCCESS)
        status = ask(call, key, &value);
    if (status != SUCCESS)
        return status;
    if (sscanf(value, "%32s %d %u %u %u %u", uuid, &fabric->status, &fabric->clique, &state, &fabric->health_mask,
               &summary) != 6)
        return UNKNOWN;
    for (unsigned int index = 0; index < sizeof(fabric->cluster_uuid); index++) {
        unsigned int byte;

        if (sscanf(uuid + 2 * index, "%2x", &byte) != 1)
            return UNKNOWN;
        fabric->cluster_uuid[index] = (unsigned char)byte;
    }
    fabric->state = (unsigned char)state;
    fabric->health_summary = (unsigned char)summary;
    return SUCCESS;
}

/* The unversioned struct of old: whoever hands in a newer one gets its fields shifted (seen in the capture). */
EXPORT status_t nvmlDeviceGetGpuFabricInfo(struct gpu *gpu, struct fabric_v1 *info)
{
    struct fabric fabric;
    status_t status = fabric_answer(__func__, gpu, &fabric);

    if (status != SUCCESS)
        return status;
    memcpy(info->cluster_uuid, fabric.cluster_uuid, sizeof(info->cluster_uuid));
    info->status = fabric.status;
    info->clique = fabric.clique;
    info->state = fabric.state;
    return SUCCESS;
}

EXPORT status_t nvmlDeviceGetGpuFabricInfoV(struct gpu *gpu, struct fabric *info)
{
    struct fabric fabric;
    bool is_v2, is_v3;
    status_t status;

    if (!initialisations)
        return UNINITIALIZED;
    is_v2 = info->version == 0x02000024;
    is_v3 = info->version == 0x03000028 && system_number("fabric_struct_version") >= 3;
    if (!is_v2 && !is_v3)
        return ARGUMENT_VERSION_MISMATCH;
    status = fabric_answer(__func__, gpu, &fabric);
    if (status != SUCCESS)
        return status;
    memcpy(info->cluster_uuid, fabric.cluster_uuid, sizeof(info->cluster_uuid));
    info->status = fabric.status;
    info->clique = fabric.clique;
    info->state = fabric.state;
    info->health_mask = fabric.health_mask;
    if (is_v3)
        info->health_summary = fabric.health_summary;
    return SUCCESS;
}

/* ---- Health ----------------------------------------------------------------------------------------------------- */

EXPORT status_t nvmlDeviceGetTotalEccErrors(struct gpu *gpu, unsigned int kind, unsigned int counter,
                                            unsigned long long *count)
{
    char key[KEY_LENGTH_MAX];
    status_t status = key_of(gpu, key);

    if (status != SUCCESS)
        return status;
    if (kind > 1 || counter > 1)
        return INVALID_ARGUMENT;
    snprintf(key, sizeof(key), "%u/%u/%u", gpu->number, kind, counter);
    return number_answer(__func__, key, count, 1);
}

EXPORT status_t nvmlDeviceGetRemappedRows(struct gpu *gpu, unsigned int *corrected, unsigned int *uncorrected,
                                          unsigned int *is_pending, unsigned int *has_failed)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long numbers[4];
    status_t status = key_of(gpu, key);

    if (status == SUCCESS)
        status = number_answer(__func__, key, numbers, 4);
    if (status != SUCCESS)
        return status;
    *corrected = (unsigned int)numbers[0];
    *uncorrected = (unsigned int)numbers[1];
    *is_pending = (unsigned int)numbers[2];
    *has_failed = (unsigned int)numbers[3];
    return SUCCESS;
}

/* ---- Field values ----------------------------------------------------------------------------------------------- */

union field_number {
    double as_double;
    unsigned int as_unsigned;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
};

struct field_value {
    uint32_t field, scope;
    int64_t timestamp_us, latency_us;
    unsigned int type;
    status_t status;
    union field_number value;
};
_Static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t");

/* An entry fails by itself; an entry that nobody described is not supported. */
static void fill_field(struct gpu *gpu, struct field_value *entry)
{
    char key[KEY_LENGTH_MAX];
    unsigned long long numbers[3] = {NOT_SUPPORTED, 0, 0};
    const struct answer *answer;
    struct timeval now;

    snprintf(key, sizeof(key), "%u/%u/%u", gpu->number, entry->field, entry->scope);
    answer = find("nvmlDeviceGetFieldValues", key);
    if (!answer) {
        snprintf(key, sizeof(key), "%u/%u/-", gpu->number, entry->field);
        answer = find("nvmlDeviceGetFieldValues", key);
    }
    if (answer)
        numbers_in(answer->value, numbers, 3);
    gettimeofday(&now, NULL);
    entry->timestamp_us = (int64_t)now.tv_sec * 1000000 + now.tv_usec;
    entry->latency_us = 0;
    entry->status = (status_t)numbers[0];
    entry->type = (unsigned int)numbers[1];
    memset(&entry->value, 0, sizeof(entry->value));
    if (entry->type == 1)
        entry->value.as_unsigned = (unsigned int)numbers[2];
    else
        entry->value.as_unsigned_long_long = numbers[2];
}

EXPORT status_t nvmlDeviceGetFieldValues(struct gpu *gpu, int count, struct field_value *entries)
{
    char key[KEY_LENGTH_MAX];
    const char *value;
    status_t status = key_of(gpu, key);

    if (status != SUCCESS)
        return status;
    if (count <= 0 || !entries)
        return INVALID_ARGUMENT;
    status = ask(__func__, key, &value);
    if (status != SUCCESS)
        return status;
    for (int index = 0; index < count; index++)
        fill_field(gpu, &entries[index]);
    return SUCCESS;
}
