/* Put before the C library of a pod (LD_PRELOAD): the name rebinding.example has the address in the file
 * $REBINDING, whatever it is at that moment. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
    lookup *real = (lookup *)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *path = getenv("REBINDING");
    char address[64] = "";
    if (name && path && strcmp(name, "rebinding.example") == 0) {
        FILE *file = fopen(path, "re");
        if (!file || !fgets(address, sizeof address, file)) abort();
        fclose(file);
        name = address;
    }
    return real(name, service, hints, found);
}
