// A real SQLite on a real file, built to WebAssembly, with the interface of `better-sqlite3` and `node:sqlite`.
import { rmSync } from "node:fs";
import sqlite from "node-sqlite3-wasm";

/** `wasKilled`: the last process may have left its lock, which this build keeps as a folder. */
export function openSqlite(file, { wasKilled = false } = {}) {
  if (wasKilled) rmSync(`${file}.lock`, { recursive: true, force: true });
  const database = new sqlite.Database(file);
  return {
    exec: (sql) => database.exec(sql),
    prepare: (sql) => ({
      all: (...parameters) => database.all(sql, parameters),
      run: (...parameters) => database.run(sql, parameters),
    }),
    close: () => database.close(),
  };
}
