/* Put before the C library of a redis-server (LD_PRELOAD): writes down, for each file that has been
 * synced to the disk, how long it was when that began. Lines of $FSYNCED: "<inode> <bytes>". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void note(const struct stat *found) {
    const char *path = getenv("FSYNCED");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    char line[64];
    int length = snprintf(line, sizeof line, "%llu %lld\n", (unsigned long long)found->st_ino,
                          (long long)found->st_size);
    if (file < 0) return;
    /* One write: lines of several threads do not mix. */
    if (write(file, line, length) != length) abort();
    close(file);
}

/* The length is asked before: what is written meanwhile may or may not reach the disk. */
static int noted(const char *name, int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat found;
    int is_file = fstat(file, &found) == 0 && S_ISREG(found.st_mode);
    int result = real(file);
    if (result == 0 && is_file) note(&found);
    return result;
}

int fsync(int file) { return noted("fsync", file); }
int fdatasync(int file) { return noted("fdatasync", file); }
