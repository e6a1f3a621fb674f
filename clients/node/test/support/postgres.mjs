// A PostgreSQL of its own on a free port, if this machine has one.
import { execFileSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Restartable, freePort, until } from "./processes.mjs";
import pg from "pg";

const PACKAGED = "/usr/lib/postgresql";

/** Where `initdb` and `postgres` are; undefined if this machine has no PostgreSQL. */
export function postgresPrograms() {
  const folders = existsSync(PACKAGED) ? readdirSync(PACKAGED).map((version) => join(PACKAGED, version, "bin")) : [];
  return [...folders, ...(process.env.PATH ?? "").split(":")].find((folder) => ["initdb", "postgres"].every((name) => existsSync(join(folder, name))));
}

/** Starts it in a folder of `dir`. It does not run as root. */
export async function startPostgres(programs, dir) {
  const data = join(dir, "postgres");
  mkdirSync(data);
  const number = (option) => Number(execFileSync("id", [option, "postgres"], { encoding: "utf8" }));
  const user = process.getuid() === 0 ? { uid: number("-u"), gid: number("-g") } : {};
  if (user.uid !== undefined) for (const folder of [dir, data]) chownSync(folder, user.uid, user.gid);
  execFileSync(join(programs, "initdb"), ["--auth", "trust", "--username", "postgres", "--no-sync", "--pgdata", data], { ...user, cwd: dir, stdio: "ignore" });
  const port = await freePort();
  const args = ["-D", data, "-p", String(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"];
  const server = new Restartable(join(programs, "postgres"), args, join(dir, "postgres.log"), {}, user);
  server.spawn();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  await until("PostgreSQL answers", async () => {
    const client = new pg.Client({ connectionString: url });
    return client.connect().then(() => client.end().then(() => true), () => false);
  });
  return { server, url };
}
