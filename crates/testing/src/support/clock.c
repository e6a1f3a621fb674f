/* Put before the C library of a redis-server: moves its wall clock. The file $CLOCK_FILE has three numbers of 64 bits:
 * how far the clock is ahead in ns, by how many parts per million it is faster, and since when (monotonic, in ns).
 * The monotonic clock stays as it is. libfaketime cannot be used: redis-server hangs with it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *file;
static int tried;

static int64_t ns_of(clockid_t clock) {
  struct timespec time;
  syscall(SYS_clock_gettime, clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int64_t ahead_ns(void) {
  if (!file && !tried) {
    tried = 1;
    const char *name = getenv("CLOCK_FILE");
    int opened = name ? (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY) : -1;
    void *found = opened < 0 ? MAP_FAILED : mmap(0, 4096, PROT_READ, MAP_SHARED, opened, 0);
    if (found != MAP_FAILED) file = found;
  }
  if (!file) return 0;
  int64_t drift = file[1] ? (ns_of(CLOCK_MONOTONIC) - file[2]) / 1000000 * file[1] : 0;
  return file[0] + drift;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = (int)syscall(SYS_clock_gettime, clock, time);
  if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t now = time->tv_sec * 1000000000LL + time->tv_nsec + ahead_ns();
    time->tv_sec = now / 1000000000LL;
    time->tv_nsec = now % 1000000000LL;
  }
  return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  int64_t now = ns_of(CLOCK_REALTIME) + ahead_ns();
  time->tv_sec = now / 1000000000LL;
  time->tv_usec = now % 1000000000LL / 1000;
  return 0;
}

time_t time(time_t *result) {
  time_t now = (ns_of(CLOCK_REALTIME) + ahead_ns()) / 1000000000LL;
  if (result) *result = now;
  return now;
}
