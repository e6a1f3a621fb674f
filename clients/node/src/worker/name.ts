import { hostname } from "node:os";

/** What Reseq takes as the name of who holds a lease. */
const NAME = /^[A-Za-z0-9._:@-]{1,64}$/;
/** Leaves room for the process id and the number. */
const HOST_LENGTH_MAX = 40;

let workers = 0;

/** A name that no other worker of this host has. */
export function newName(): string {
  const host = hostname().replace(/[^A-Za-z0-9._-]/g, "-").slice(0, HOST_LENGTH_MAX) || "host";
  return `${host}:${process.pid}:${(workers += 1)}`;
}

export function checkedName(name: string): string {
  if (typeof name !== "string" || !NAME.test(name)) {
    throw new TypeError(`name must be 1 to 64 of the characters A-Z, a-z, 0-9, '.', '_', ':', '@' and '-': ${JSON.stringify(name)}`);
  }
  return name;
}
