// A real SQLite on a real file, built to WebAssembly, with the interface of `better-sqlite3` and `node:sqlite`.
import sqlite from "node-sqlite3-wasm";

export function openSqlite(file) {
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
