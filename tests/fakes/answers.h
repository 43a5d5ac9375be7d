/*
 * What the fake driver libraries have in common: a text file of answers, found by call and key, and the ways in which an
 * answer can fail to come. `CALL KEY STATUS VALUE` a line (gpumond.simulate.nvml_answers); a status is a number, or
 * `hang`, or `crash`. ANSWERS_VARIABLE is the library's own, and defined by its build.
 */

#ifndef GPUMOND_FAKE_ANSWERS_H
#define GPUMOND_FAKE_ANSWERS_H

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define SYSTEM_KEY "-"
#define GPUS_MAX 64
#define KEY_LENGTH_MAX 64
#define LINE_LENGTH_MAX 1024

struct answer {
    char *name; /* "CALL KEY" */
    char *status;
    char *value;
};

static struct answer *answers;
static size_t answer_count;
static struct stat loaded; /* the file that they come from */

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct answer *)left)->name, ((const struct answer *)right)->name);
}

static const struct answer *find(const char *call, const char *key)
{
    char name[2 * LINE_LENGTH_MAX];
    struct answer wanted = {.name = name};

    snprintf(name, sizeof(name), "%s %s", call, key);
    return bsearch(&wanted, answers, answer_count, sizeof(*answers), by_name);
}

/* The answer for the key, else the one for its GPU as a whole; faults of a GPU come before all. */
static const struct answer *answer_of(const char *call, const char *key)
{
    char first[KEY_LENGTH_MAX];
    const struct answer *answer;

    snprintf(first, sizeof(first), "%.*s", (int)strcspn(key, "/"), key);
    answer = find("*", first);
    if (!answer)
        answer = find(call, key);
    return answer ? answer : find(call, first);
}

/* Only SIGKILL ends this, as with a process that waits for a dying GPU. */
static void hang_for_ever(void)
{
    sigset_t all;
    int number;

    for (number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (;;)
        sleep(3600);
}

static void crash(void)
{
    const struct rlimit no_core = {0, 0};

    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static long status_of(const struct answer *answer)
{
    if (strcmp(answer->status, "hang") == 0)
        hang_for_ever();
    if (strcmp(answer->status, "crash") == 0)
        crash();
    return strtol(answer->status, NULL, 10);
}

/* Reads up to `count` numbers of a value; the rest stays as it is. Returns how many there were. */
static unsigned int numbers_in(const char *value, unsigned long long *numbers, unsigned int count)
{
    unsigned int found = 0;
    char *end;

    for (;;) {
        unsigned long long number;

        errno = 0;
        number = strtoull(value, &end, 10);
        if (end == value || errno)
            return found;
        if (found < count)
            numbers[found] = number;
        found++;
        value = end;
    }
}

static void forget_answers(void)
{
    size_t index;

    for (index = 0; index < answer_count; index++) {
        free(answers[index].name);
        free(answers[index].status);
        free(answers[index].value);
    }
    free(answers);
    answers = NULL;
    answer_count = 0;
}

static bool load_line(char *line)
{
    struct answer *grown;
    char *key, *status, *value;

    line[strcspn(line, "\n")] = '\0';
    key = strchr(line, ' ');
    status = key ? strchr(key + 1, ' ') : NULL;
    if (!status)
        return false;
    *status++ = '\0';
    value = strchr(status, ' ');
    if (value)
        *value++ = '\0';
    grown = realloc(answers, (answer_count + 1) * sizeof(*answers));
    if (!grown)
        return false;
    answers = grown;
    answers[answer_count].name = strdup(line);
    answers[answer_count].status = strdup(status);
    answers[answer_count].value = strdup(value ? value : "");
    answer_count++;
    return true;
}

/* A child of the daemon inherits the loader's path and nothing of ours: its answers lie beside the library. */
static const char *answers_beside(char *buffer, size_t size)
{
    Dl_info info;
    int length;

    if (!dladdr((void *)answers_beside, &info) || !info.dli_fname)
        return NULL;
    length = snprintf(buffer, size, "%s.answers", info.dli_fname);
    return length > 0 && (size_t)length < size ? buffer : NULL;
}

static const char *answers_path(char *buffer, size_t size)
{
    const char *named = getenv(ANSWERS_VARIABLE);

    return named ? named : answers_beside(buffer, size);
}

static bool load_answers(void)
{
    char beside[PATH_MAX];
    const char *path = answers_path(beside, sizeof(beside));
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LINE_LENGTH_MAX];
    bool is_good = true;

    if (!file) {
        fprintf(stderr, "fake library: cannot read the answers that %s names\n", ANSWERS_VARIABLE);
        return false;
    }
    fstat(fileno(file), &loaded);
    while (is_good && fgets(line, sizeof(line), file))
        is_good = load_line(line);
    fclose(file);
    if (!is_good)
        fprintf(stderr, "fake library: not an answer: %s\n", line);
    qsort(answers, answer_count, sizeof(*answers), by_name);
    return is_good;
}

/* Another file in its place is another host. An inode number alone is used again at once. */
static inline bool answers_have_changed(void)
{
    char beside[PATH_MAX];
    const char *path = answers_path(beside, sizeof(beside));
    struct stat now;

    return path && stat(path, &now) == 0 &&
           (now.st_ino != loaded.st_ino || now.st_mtim.tv_sec != loaded.st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != loaded.st_mtim.tv_nsec);
}

#endif
