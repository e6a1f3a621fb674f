// An application as users write it: Fastify, a worker, a guard and a consumer, with effects in SQL. It may be killed at any moment.
import fastify from "fastify";
import pg from "pg";
import { Reseq, Worker, createTable, orderGuard, postgresStore, sqliteStore } from "reseq";
import { openSqlite } from "./sqlite.mjs";

const [, , kind, where, port] = process.argv;
const CREATE = "CREATE TABLE IF NOT EXISTS applied (at INTEGER PRIMARY KEY, what TEXT, lane TEXT, number INTEGER)";

/** What differs between the two databases. */
const database = {
  async postgres() {
    const pool = new pg.Pool({ connectionString: where });
    pool.on("error", () => {});
    // Two processes begin at the same time, and `IF NOT EXISTS` does not wait for the other.
    await pool.query(`SELECT pg_advisory_lock(7); ${CREATE.replace("INTEGER PRIMARY KEY", "SERIAL PRIMARY KEY")}; ${createTable()}; SELECT pg_advisory_unlock(7)`);
    const insert = (client, values) => client.query("INSERT INTO applied (what, lane, number) VALUES ($1, $2, $3)", values);
    return { store: postgresStore(pool), insert, select: async (sql) => (await pool.query(sql)).rows };
  },
  async sqlite() {
    const handle = openSqlite(where, { wasKilled: true });
    handle.exec(`PRAGMA synchronous = OFF; ${CREATE}`);
    const insert = (tx, values) => tx.prepare("INSERT INTO applied (what, lane, number) VALUES (?, ?, ?)").run(...values);
    return { store: sqliteStore(() => handle), insert, select: async (sql) => handle.prepare(sql).all() };
  },
};

const { store, insert, select } = await database[kind]();
const quiet = () => {};
const reseq = new Reseq();
const guard = orderGuard({ store, onError: quiet });
const app = fastify();
app.register(guard.fastify("/in", ({ key, body }, tx) => insert(tx, ["order", key, body.number])));
app.post("/orders", async ({ body: { number, key } }, reply) => {
  await reseq.send(["orders", "letters"], { number }, { key, idempotencyKey: `order ${number}` });
  return reply.code(202).send({ number });
});
app.get("/applied", () => select("SELECT what, lane, number FROM applied ORDER BY at"));
app.get("/count", () => select("SELECT count(*) AS count FROM applied"));
await app.listen({ port: Number(port), host: "127.0.0.1" });

new Worker("orders", ({ body }) => body, { reseq, leaseMs: 1500 }).on("error", quiet);
await guard.consume(reseq, "letters", ({ key, body }, tx) => insert(tx, ["letter", key, body.number]), { onError: quiet });
