/* Stands between the daemon and the C library, and has some of the calls by which a save changes files
 * fail, wait, or be the last ones of the process.
 *
 * FAULTS names a file of the numbers below, which a test changes while the daemon runs; FAULTS_UNDER is
 * the folder whose files are meant. The Rust standard library calls all of these; what it does not call
 * (fallocate, copy_file_range, ioctl) goes straight to the kernel and never fails here. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct control {
    int32_t left;   /* calls that still work; below zero: all */
    int32_t error;  /* what the next one fails with; 0: it works after all */
    int32_t lasts;  /* all those after it fail as well */
    int32_t kill;   /* the process is killed in its place: 1 before it is done, 2 after */
    int32_t wait;   /* milliseconds to wait before each fsync */
    int32_t calls;  /* counts them */
};

static volatile struct control *control;
static const char *under;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    under = getenv("FAULTS_UNDER");
    if (file < 0 || !under)
        return;
    void *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map != MAP_FAILED)
        control = map;
}

static int is_meant(const char *path)
{
    return control && !strncmp(path, under, strlen(under));
}

static int is_meant_file(int file)
{
    char link[64], path[PATH_MAX];
    if (!control)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0)
        return 0;
    path[len] = 0;
    return is_meant(path);
}

static __thread int killed_after;

/* Whether the call is to fail. */
static int fails(void)
{
    killed_after = 0;
    __sync_fetch_and_add(&control->calls, 1);
    int left = control->left;
    if (left < 0)
        return 0;
    if (left > 0) {
        control->left = left - 1;
        return 0;
    }
    if (!control->lasts)
        control->left = -1;
    if (control->kill == 1)
        kill(getpid(), SIGKILL);
    killed_after = control->kill == 2;
    errno = control->error;
    return control->error != 0;
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
#define DO(call)                                                                                             \
    do {                                                                                                     \
        typeof(call) answer_ = (call);                                                                       \
        if (killed_after)                                                                                    \
            kill(getpid(), SIGKILL);                                                                         \
        return answer_;                                                                                      \
    } while (0)

ssize_t pwrite64(int file, const void *bytes, size_t len, off64_t at)
{
    if (is_meant_file(file) && fails())
        return -1;
    DO(REAL(pwrite64)(file, bytes, len, at));
}

int fsync(int file)
{
    if (is_meant_file(file)) {
        if (control->wait)
            usleep(control->wait * 1000);
        if (fails())
            return -1;
    }
    DO(REAL(fsync)(file));
}

int ftruncate64(int file, off64_t len)
{
    if (is_meant_file(file) && fails())
        return -1;
    DO(REAL(ftruncate64)(file, len));
}

int rename(const char *from, const char *to)
{
    if (is_meant(to) && fails())
        return -1;
    DO(REAL(rename)(from, to));
}

int unlink(const char *path)
{
    if (is_meant(path) && fails())
        return -1;
    DO(REAL(unlink)(path));
}
