/* A wall clock of its own for a process tree (LD_PRELOAD): so many seconds ahead as the file HELIOGRAPH_CLOCK holds,
   a 64-bit integer that may change at any time. Monotonic clocks and sleeps stay as they are, as when an operator or
   NTP sets a machine's clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;
static int (*real_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("HELIOGRAPH_CLOCK");
    int descriptor = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
        void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, descriptor, 0);
        close(descriptor);
        if (mapped != MAP_FAILED)
            ahead = mapped;
    }
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = real_clock ? real_clock(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *stored) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (stored)
        *stored = exact.tv_sec;
    return exact.tv_sec;
}
