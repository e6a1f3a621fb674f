// A receiver whose effects are rows. It may be killed at any moment.
import { createServer } from "node:http";
import { orderGuard, sqliteStore } from "reseq";
import { openSqlite } from "./sqlite.mjs";

const [, , file, port] = process.argv;
const database = openSqlite(file, { wasKilled: true });
database.exec("PRAGMA synchronous = OFF; CREATE TABLE IF NOT EXISTS applied (lane TEXT, number INTEGER)");
const guard = orderGuard({ store: sqliteStore(() => database), onError: () => {} });
const receive = guard.node(({ key, body }, tx) => {
  if (!body.isHandled) throw new Error("nobody has handled it");
  tx.prepare("INSERT INTO applied VALUES (?, ?)").run(key, body.number);
});
createServer((request, response) => {
  if (request.method === "POST") return receive(request, response);
  const what = request.url === "/count" ? "SELECT count(*) AS count FROM applied" : "SELECT lane, number FROM applied ORDER BY rowid";
  response.end(JSON.stringify(database.prepare(what).all()));
}).listen(Number(port), "127.0.0.1");
