/* Fault injection between the daemon and the kernel: some of the calls with which a save changes files fail, wait,
 * or kill the process.
 *
 * FAULTS names the control file with the numbers below, which a test changes while the daemon runs. FAULTS_UNDER
 * is the directory of the affected files. A seccomp filter raises a signal instead of each call that changes a
 * disk, from every caller: the Rust standard library through the C library, and rustix, which calls the kernel
 * directly. The signal handler makes the call from the only address that the filter allows, or skips it. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fiemap.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)
static const unsigned char gate_code[] = {0x0f, 0x05, 0xc3}; /* syscall; ret */
#define AFTER_CALL 2
#define RESULT(context) ((context)->uc_mcontext.gregs[REG_RAX])
static const int places[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
#define ARGUMENT(context, n) ((context)->uc_mcontext.gregs[places[n]])
#elif defined(__aarch64__)
static const unsigned char gate_code[] = {1, 0, 0, 0xd4, 0xc0, 3, 0x5f, 0xd6}; /* svc #0; ret */
#define AFTER_CALL 4
#define RESULT(context) ((context)->uc_mcontext.regs[0])
#define ARGUMENT(context, n) ((context)->uc_mcontext.regs[n])
#else
#error "the calls of this machine are not known here"
#endif

/* The address from which the filter allows all calls. It is fixed, because child programs inherit the filter. */
#define GATE 0x200000000000UL

struct control {
    int32_t left;   /* remaining calls that work; negative: all */
    int32_t error;  /* errno of the next call; 0: the call works */
    int32_t lasts;  /* all later calls fail as well */
    int32_t kill;   /* kills the process: 1 before the call, 2 after it; 3 stops it before the call */
    int32_t wait;   /* milliseconds to wait before each fsync */
    int32_t calls;  /* number of calls so far */
    int32_t reads;  /* read calls count as well */
};

static volatile struct control *control;
static const char *under;

static int is_meant(const char *path)
{
    return !strncmp(path, under, strlen(under));
}

static int is_meant_file(int file)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0)
        return 0;
    path[len] = 0;
    return is_meant(path);
}

/* True if a name is meant: its path, or the open directory that it is relative to. */
static int is_meant_at(int directory, const char *path)
{
    return *path == '/' ? is_meant(path) : is_meant_file(directory);
}

/* True if faults apply to the call; for calls with two files, the changed one decides. */
static int is_meant_call(int call, const long *arguments)
{
    switch (call) {
#ifdef SYS_rename
    case SYS_rename:
        return is_meant((const char *)arguments[1]);
    case SYS_unlink:
    case SYS_mkdir:
        return is_meant((const char *)arguments[0]);
#endif
    case SYS_renameat:
    case SYS_renameat2:
        return is_meant_at(arguments[2], (const char *)arguments[3]);
    case SYS_openat:
    case SYS_unlinkat:
    case SYS_mkdirat:
        return is_meant_at(arguments[0], (const char *)arguments[1]);
    case SYS_copy_file_range:
        return is_meant_file(arguments[2]);
    default:
        return is_meant_file(arguments[0]);
    }
}

/* Returns the errno of the call, or 0; *killed_after is true if the process is killed after the call. */
static int fails(int *killed_after)
{
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
    if (control->kill == 3)
        kill(getpid(), SIGSTOP);
    *killed_after = control->kill == 2;
    return control->error;
}

static long call_kernel(int call, const long *arguments)
{
#if defined(__x86_64__)
    register long fourth __asm__("r10") = arguments[3];
    register long fifth __asm__("r8") = arguments[4];
    register long sixth __asm__("r9") = arguments[5];
    long result = call;
    /* Skip the red zone below the stack pointer. */
    __asm__ volatile("sub $128, %%rsp\n\tcall *%[gate]\n\tadd $128, %%rsp"
                     : "+a"(result)
                     : "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(fourth), "r"(fifth),
                       "r"(sixth), [gate] "b"(GATE)
                     : "rcx", "r11", "memory", "cc");
    return result;
#else
    register long number __asm__("x8") = call;
    register long first __asm__("x0") = arguments[0];
    register long second __asm__("x1") = arguments[1];
    register long third __asm__("x2") = arguments[2];
    register long fourth __asm__("x3") = arguments[3];
    register long fifth __asm__("x4") = arguments[4];
    register long sixth __asm__("x5") = arguments[5];
    __asm__ volatile("blr %[gate]"
                     : "+r"(first)
                     : "r"(number), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth),
                       [gate] "r"(GATE)
                     : "x30", "memory", "cc");
    return first;
#endif
}

static void called(int signal, siginfo_t *info, void *context_of_signal)
{
    (void)signal;
    ucontext_t *context = context_of_signal;
    int call = info->si_syscall, errno_before = errno, killed_after = 0, error = 0;
    long arguments[6];
    for (int n = 0; n < 6; n++)
        arguments[n] = ARGUMENT(context, n);
    if (is_meant_call(call, arguments)) {
        for (int32_t waited = 0; call == SYS_fsync && waited < control->wait; waited += 10)
            usleep(10000);
        error = fails(&killed_after);
    }
    RESULT(context) = error ? -error : call_kernel(call, arguments);
    if (killed_after)
        kill(getpid(), SIGKILL);
    errno = errno_before;
}

/* Reads are not trapped, because the dynamic linker reads before the handler is installed. */
ssize_t pread64(int file, void *bytes, size_t len, off64_t at)
{
    int killed_after, error = 0;
    if (control && control->reads && is_meant_file(file))
        error = fails(&killed_after);
    if (error) {
        errno = error;
        return -1;
    }
    return syscall(SYS_pread64, file, bytes, len, at);
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOW(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
/* Continues if equal; otherwise skips this many instructions. */
#define IS(value, skipped) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skipped))
#define HAS(bits, skipped) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, (skipped))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define TRAP RETURN(SECCOMP_RET_TRAP)
#define ALLOW RETURN(SECCOMP_RET_ALLOW)
#define TRAP_IF(number) IS((number), 1), TRAP

static void filter(void)
{
    struct sock_filter rules[] = {
        LOAD(instruction_pointer),
        IS((uint32_t)(GATE + AFTER_CALL), 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        IS((uint32_t)((GATE + AFTER_CALL) >> 32), 1),
        ALLOW,
        LOAD(nr),
#ifdef SYS_rename
        TRAP_IF(SYS_rename),
        TRAP_IF(SYS_unlink),
        TRAP_IF(SYS_mkdir),
#endif
        TRAP_IF(SYS_renameat),
        TRAP_IF(SYS_renameat2),
        TRAP_IF(SYS_unlinkat),
        TRAP_IF(SYS_mkdirat),
        TRAP_IF(SYS_pwrite64),
        TRAP_IF(SYS_fsync),
        TRAP_IF(SYS_fdatasync),
        TRAP_IF(SYS_ftruncate),
        TRAP_IF(SYS_fallocate),
        TRAP_IF(SYS_copy_file_range),
        TRAP_IF(SYS_fchmod),
        TRAP_IF(SYS_fchown),
        TRAP_IF(SYS_fsetxattr),
        TRAP_IF(SYS_fremovexattr),
        /* Creation of a file. */
        IS(SYS_openat, 4),
        LOW(2),
        HAS(O_CREAT, 1),
        TRAP,
        ALLOW,
        IS(SYS_ioctl, 7),
        LOW(1),
        TRAP_IF(FICLONE),
        TRAP_IF(FICLONERANGE),
        /* FIEMAP writes out data that have no place on the disk yet. */
        TRAP_IF(FS_IOC_FIEMAP),
        ALLOW,
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    /* Required for a filter, except for root. */
    if (geteuid() != 0)
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("faults.c: no filter");
        abort();
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    under = getenv("FAULTS_UNDER");
    if (file < 0 || !under)
        return;
    void *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    void *gate = mmap((void *)GATE, sizeof gate_code, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    struct sigaction action = {.sa_sigaction = called, .sa_flags = SA_SIGINFO | SA_RESTART};
    if (map == MAP_FAILED || gate == MAP_FAILED || sigaction(SIGSYS, &action, NULL)) {
        perror("faults.c");
        abort();
    }
    control = map;
    memcpy(gate, gate_code, sizeof gate_code);
    __builtin___clear_cache(gate, (char *)gate + sizeof gate_code);
    mprotect(gate, sizeof gate_code, PROT_READ | PROT_EXEC);
    filter();
}
