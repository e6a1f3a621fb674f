// The guard: with each framework and each store, and with what Reseq may send.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { PGlite } from "@electric-sql/pglite";
import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { Redis } from "ioredis";
import * as v from "valibot";
import { createClient } from "redis";
import { Permanent, Reseq, Retry, checkedBody, createTable, memoryStore, orderGuard, postgresStore, redisStore, sign, sqlStore, sqliteStore } from "reseq";
import { Deployment, Restartable, freePort, until } from "./support/processes.mjs";
import { openSqlite } from "./support/sqlite.mjs";

/** A request as Reseq sends it. */
function delivery(sequence, { epoch = 1, key = null, previous = sequence - 1, body = { sequence }, headers = {} } = {}) {
  const all = {
    "content-type": "application/json",
    "reseq-destination": "erp",
    "reseq-id": "id",
    "reseq-attempt": "1",
    "reseq-epoch": String(epoch),
    "reseq-sequence": String(sequence),
    ...(previous === null ? {} : { "reseq-previous": String(previous) }),
    ...(key === null ? {} : { "reseq-key": encodeURIComponent(key) }),
    ...headers,
  };
  return { method: "POST", headers: all, body: typeof body === "string" ? body : JSON.stringify(body) };
}

/** Sends to a guard without a server. */
const through = (guard, handler) => {
  const answer = guard.fetch(handler);
  return async (...args) => (await answer(new Request("http://receiver/in", delivery(...args)))).status;
};
const quiet = { onError: () => {} };

test("repeats and stale messages are accepted without a call, also in a new epoch", async () => {
  const got = [];
  const send = through(orderGuard({ store: memoryStore() }), ({ epoch, sequence, key, body }) => void got.push([epoch, sequence, key, body.sequence]));
  const statuses = [];
  for (const [sequence, fields] of [[1], [2], [2], [1], [1, { epoch: 2 }], [3], [1, { epoch: 2 }], [2, { epoch: 2 }], [7, { key: "ö%/", previous: 0 }], [7, { key: "ö%/", previous: 0 }]]) {
    statuses.push(await send(sequence, fields));
  }
  assert.deepEqual([...new Set(statuses)], [204]);
  assert.deepEqual(got, [[1, 1, null, 1], [1, 2, null, 2], [2, 1, null, 1], [2, 2, null, 2], [1, 7, "ö%/", 7]]);
});

test("a repeat that comes while the first is handled waits for its outcome", async () => {
  let calls = 0;
  let end;
  const send = through(orderGuard({ store: memoryStore(), ...quiet }), async () => {
    calls += 1;
    if (calls === 1) await new Promise((_, reject) => (end = () => reject(new Error("it failed"))));
  });
  const both = [send(1), send(1)];
  await until("it is called", () => calls === 1);
  end();
  assert.deepEqual(await Promise.all(both), [500, 500]);
  assert.equal(await send(1), 204);
  assert.equal(calls, 2);
});

test("errors become the answers that Reseq understands", async () => {
  const thrown = { 1: new Error("again"), 2: new Permanent("never"), 3: new Retry("later", 1500) };
  const guard = orderGuard({ store: memoryStore(), ...quiet });
  const answer = guard.fetch(({ sequence }) => {
    throw thrown[sequence];
  });
  const answers = await Promise.all([1, 2, 3].map((sequence) => answer(new Request("http://r/", delivery(sequence, { key: `k${sequence}`, previous: 0 })))));
  assert.deepEqual(answers.map(({ status }) => status), [500, 422, 503]);
  assert.equal(answers[2].headers.get("retry-after"), "2");
  assert.equal(await answers[1].text(), "never");
});

test("a body that does not fit its schema is a permanent failure", async () => {
  const receive = through(orderGuard({ store: memoryStore(), ...quiet }), async (message) => {
    const { sequence } = await checkedBody(message, v.pipeAsync(v.object({ sequence: v.number() }), v.checkAsync(async ({ sequence }) => sequence !== 3, "not 3")));
    assert.equal(sequence, message.sequence);
  });
  assert.equal(await receive(1), 204);
  assert.equal(await receive(2, { body: { sequence: "2" } }), 422);
  assert.equal(await receive(3), 422);
});

test("a guard with the wrong ordering refuses before it could skip anything", async () => {
  const none = through(orderGuard({ store: memoryStore(), ...quiet }), () => {});
  assert.deepEqual([await none(5, { previous: 0 }), await none(3, { previous: 0 }), await none(6, { previous: 0 })], [204, 500, 500]);
  const key = through(orderGuard({ store: memoryStore(), ordering: "destination", ...quiet }), () => {});
  assert.deepEqual([await key(1, { key: "a", previous: 0 }), await key(2, { key: "b", previous: 0 })], [204, 500]);
  const got = [];
  const right = through(orderGuard({ store: memoryStore(), ordering: "none" }), ({ sequence }) => void got.push(sequence));
  for (const sequence of [5, 3, 5, 4, 3]) assert.equal(await right(sequence, { previous: 0 }), 204);
  assert.deepEqual(got, [5, 3, 4]);
});

test("a batch is applied up to the message that fails", async () => {
  const got = [];
  let isFailing = true;
  const guard = orderGuard({ store: memoryStore(), ...quiet });
  const answer = guard.fetch(({ sequence, raw }) => {
    if (sequence === 3 && isFailing) throw new Error("not now");
    got.push([sequence, raw.toString()]);
  });
  const envelope = (sequence) => `{"id":"i","sequence":${sequence},"previous":${sequence - 1},"epoch":1,"key":null,"attempt":1,"headers":{},"content_type":"application/json","body":{"n": 1234567890123456789${sequence}}}`;
  const batch = (first, last, isLines) => {
    const envelopes = [];
    for (let sequence = first; sequence <= last; sequence += 1) envelopes.push(envelope(sequence));
    const body = isLines ? envelopes.join("\n") + "\n" : `[${envelopes.join(",\n ")}]`;
    const headers = { "reseq-batch": String(envelopes.length), "content-type": isLines ? "application/x-ndjson" : "application/json" };
    return answer(new Request("http://r/", delivery(first, { body, headers })));
  };
  const partly = await batch(1, 4);
  assert.deepEqual([partly.status, await partly.json()], [200, { accepted: 2 }]);
  assert.equal((await batch(3, 4)).status, 500);
  isFailing = false;
  // A repeat of a batch that overlaps.
  assert.equal((await batch(2, 5, true)).status, 204);
  assert.deepEqual(got, [1, 2, 3, 4, 5].map((sequence) => [sequence, `{"n": 1234567890123456789${sequence}}`]));
});

describe("signatures", () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const base64 = (key, field) => Buffer.from(key.export({ format: "jwk" })[field], "base64url").toString("base64");
  const [privateSecret, publicSecret] = [`whsk_${base64(privateKey, "d")}`, `whpk_${base64(publicKey, "x")}`];

  test("signing follows the specification", () => {
    // The example of the specification's libraries.
    assert.equal(sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}'), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  });

  test("a secret that cannot be one is refused at once, and not shown", () => {
    for (const [secrets, sentence] of [
      [[], /secrets is empty/],
      [[secret, "hunter2"], /secrets\[1\] is wrong: it must be whsec_ or whpk_ and base64$/],
      [[privateSecret], /secrets\[0\] is wrong: .*whsk_ is the private key/],
      [["whpk_AAAA"], /secrets\[0\] is wrong: a public key has 32 bytes/],
    ]) {
      assert.throws(() => orderGuard({ store: memoryStore(), secrets }), (error) => {
        assert.ok(error instanceof TypeError);
        assert.match(error.message, sentence);
        assert.doesNotMatch(error.message, /hunter2/);
        return !error.message.includes(privateSecret.slice(5));
      });
    }
  });

  test("those of Reseq are checked, its headers too: nothing in a recorded request can be changed", async (t) => {
    const deployment = await Deployment.start();
    t.after(() => deployment.stop());
    const reseq = new Reseq({ url: deployment.urls });
    const recorded = [];
    const guards = [secret, publicSecret].map((one) => {
      const got = [];
      const answer = orderGuard({ store: memoryStore(), secrets: ["whsec_b3RoZXI=", one] }).fetch(({ sequence, key }) => void got.push([sequence, key]));
      return { got, answer: async (headers, raw) => (await answer(new Request("http://receiver/in", { method: "POST", headers, body: raw }))).status };
    });
    const server = createServer(async (request, response) => {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      // Node sends these itself.
      const { host, connection, "content-length": length, "transfer-encoding": encoding, ...headers } = request.headers;
      recorded.push([headers, Buffer.concat(chunks)]);
      const statuses = await Promise.all(guards.map(({ answer }) => answer(...recorded.at(-1))));
      response.writeHead(Math.max(...statuses)).end();
    }).listen(0, "127.0.0.1");
    t.after(() => (server.close(), server.closeAllConnections()));
    await until("the receiver listens", () => server.address());
    await reseq.define("erp", { url: `http://127.0.0.1:${server.address().port}/in`, sign: { secrets: [secret, privateSecret] } });
    for (const key of ["a", "ö%/ b"]) await reseq.send("erp", { key }, { key }).delivered();
    for (const { got } of guards) assert.deepEqual(got, [[1, "a"], [2, "ö%/ b"]]);

    const [headers, raw] = recorded[0];
    const without = (name) => Object.fromEntries(Object.entries(headers).filter(([one]) => one !== name));
    const forged = [
      ...["reseq-sequence", "reseq-epoch", "reseq-attempt"].map((name) => [{ ...headers, [name]: "9" }, raw]),
      ...["reseq-destination", "reseq-key", "reseq-id", "reseq-origin", "webhook-id"].map((name) => [{ ...headers, [name]: "other" }, raw]),
      ...["reseq-signature", "webhook-signature", "webhook-timestamp", "reseq-key", "reseq-previous"].map((name) => [without(name), raw]),
      [{ ...headers, "reseq-signature": headers["webhook-signature"] }, raw],
      [{ ...headers, "reseq-signature": recorded[1][0]["reseq-signature"] }, raw],
      [headers, Buffer.from('{"key":"b"}')],
    ];
    for (const { got, answer } of guards) {
      for (const [at, [changed, bytes]] of forged.entries()) assert.equal(await answer(changed, bytes), 401, `forged request ${at}`);
      assert.equal(await answer(headers, raw), 204, "a repeat is accepted");
      assert.equal(got.length, 2, "and the handler was not called again");
    }

    t.mock.timers.enable({ apis: ["Date"], now: Date.now() + 3_600_000 });
    for (const { answer } of guards) assert.equal(await answer(headers, raw), 401, "an hour later");
    const patient = orderGuard({ store: memoryStore(), secrets: [secret], toleranceSeconds: 7200 }).fetch(() => {});
    assert.equal((await patient(new Request("http://receiver/in", { method: "POST", headers, body: raw }))).status, 204);
  });
});

test("what is not from Reseq is refused, and so is what is too long", async () => {
  const guard = orderGuard({ store: memoryStore(), bodyBytesMax: 20 });
  const answer = guard.fetch(() => {});
  const status = async (request) => (await answer(new Request("http://r/", request))).status;
  assert.equal(await status({ method: "POST", body: "{}" }), 400);
  assert.equal(await status(delivery(1, { headers: { "reseq-sequence": "1e400" } })), 400);
  assert.equal(await status(delivery(1, { headers: { "reseq-key": "%E0%A4%A" } })), 400);
  assert.equal(await status(delivery(1, { body: "x".repeat(21) })), 413);
});

describe("frameworks", () => {
  const run = async (t, listen) => {
    const got = [];
    const guard = orderGuard({ store: memoryStore() });
    const { port, close } = await listen(guard, ({ sequence, body, key }) => void got.push([sequence, body, key]));
    t.after(close);
    for (const sequence of [1, 1, 2]) {
      const answer = await fetch(`http://127.0.0.1:${port}/in`, delivery(sequence, { key: "ä b" , previous: sequence - 1 }));
      assert.equal(answer.status, 204, await answer.text());
    }
    assert.deepEqual(got, [[1, { sequence: 1 }, "ä b"], [2, { sequence: 2 }, "ä b"]]);
  };
  const listened = (server) => new Promise((resolve) => server.once("listening", () => resolve({ port: server.address().port, close: () => (server.close(), server.closeAllConnections()) })));

  test("node:http", (t) => run(t, (guard, handler) => listened(createServer(guard.node(handler)).listen(0, "127.0.0.1"))));
  test("Express", (t) => run(t, (guard, handler) => {
    const app = express();
    app.post("/in", guard.express(handler));
    app.use(express.json());
    return listened(app.listen(0, "127.0.0.1"));
  }));
  test("Express, behind a parser of JSON", (t) => run(t, (guard, handler) => {
    const app = express();
    app.use(express.json());
    app.post("/in", guard.express(handler));
    return listened(app.listen(0, "127.0.0.1"));
  }));
  test("Fastify", (t) => run(t, async (guard, handler) => {
    const app = fastify();
    app.register(guard.fastify("/in", handler));
    app.post("/other", async (request) => request.body);
    await app.listen({ port: 0, host: "127.0.0.1" });
    const { port } = app.server.address();
    const other = await fetch(`http://127.0.0.1:${port}/other`, { method: "POST", body: '{"x":1}', headers: { "content-type": "application/json" } });
    assert.deepEqual(await other.json(), { x: 1 });
    return { port, close: () => app.close() };
  }));
  test("Hono", (t) => run(t, (guard, handler) => {
    const app = new Hono();
    app.post("/in", guard.hono(handler));
    return new Promise((resolve) => {
      const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => resolve({ port, close: () => server.close() }));
    });
  }));
});

describe("stores", () => {
  const dir = mkdtempSync(join(tmpdir(), "reseq-guard-"));
  let redis, ioredis, nodeRedis, postgres;
  before(async () => {
    const port = await freePort();
    redis = new Restartable("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--dir", dir, "--save", ""], join(dir, "redis.log"));
    redis.spawn();
    ioredis = new Redis(port, "127.0.0.1").on("error", () => {}); // it does not answer yet
    await until("Redis answers", () => ioredis.ping().catch(() => undefined));
    nodeRedis = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
    postgres = await PGlite.create();
    await postgres.exec(createTable());
  });
  after(async () => {
    ioredis.disconnect();
    nodeRedis.destroy();
    await redis.kill();
    await postgres.close();
    rmSync(dir, { recursive: true });
  });
  const stores = {
    "memory": () => memoryStore(),
    "Redis with ioredis": () => redisStore(ioredis, { prefix: "a" }),
    "Redis with redis": () => redisStore(nodeRedis, { prefix: "b" }),
    "SQLite": () => sqliteStore(() => openSqlite(join(dir, "lanes.db"))),
    "SQLite, with a handle of the program": () => sqliteStore(openSqlite(join(dir, "shared.db"))),
    "Postgres": () => sqlStore({
      dialect: "postgres",
      transaction: (work) => postgres.transaction(work),
      query: async (tx, sql, parameters) => (await tx.query(sql, parameters)).rows,
    }),
  };
  for (const [name, open] of Object.entries(stores)) {
    test(name, async () => {
      const store = open();
      const got = [];
      let fails = 0;
      const guard = orderGuard({ store, forgetAfterMs: 0, ...quiet });
      // No regular forgetting: this test says when.
      guard.close();
      const send = through(guard, async ({ sequence, key }) => {
        await pause(2);
        if (sequence === 2 && fails++ === 0) throw new Error("once");
        got.push(`${key}${sequence}`);
      });
      const of = (key) => async (sequence) => send(sequence, { key, previous: sequence - 1 });
      const [a, b] = [of("a"), of("b")];
      // Lanes do not wait for each other, and a repeat waits for the first.
      await Promise.all([a(1), a(1), b(1)]);
      assert.deepEqual([await a(2), await a(2), await a(1), await b(2)], [500, 204, 204, 204]);
      assert.deepEqual(got.filter((one) => one.startsWith("a")), ["a1", "a2"]);
      assert.deepEqual(got.filter((one) => one.startsWith("b")), ["b1", "b2"]);
      assert.equal(await send(1, { key: "a", epoch: 1795265064376, previous: 0 }), 204);
      assert.equal(await send(9, { key: "a", previous: 8 }), 204);
      assert.equal(got.length, 5);
      const idle = await store.idleSince(Date.now() + 1000, 10);
      assert.deepEqual(idle.find(({ lane }) => lane === "erp/a").state.epoch, 1795265064376);
      // A lane that has gone on since is not forgotten.
      await store.forget("erp/b", { epoch: 1, sequence: 1, isFirst: true });
      assert.equal((await store.idleSince(Date.now() + 1000, 10)).length, 2);
      await pause(2);
      assert.equal(await guard.forgetIdle(), 2);
      assert.equal((await store.idleSince(Date.now() + 1000, 10)).length, 0);
    });
  }

  test("two processes with one Redis: a repeat waits for the other's outcome", async () => {
    const got = [];
    const handler = async ({ sequence }) => {
      await pause(50);
      got.push(sequence);
    };
    const processes = [0, 1].map(() => through(orderGuard({ store: redisStore(ioredis, { prefix: "two" }) }), handler));
    assert.deepEqual(await Promise.all([processes[0](1), processes[1](1)]), [204, 204]);
    assert.deepEqual(got, [1]);
  });

  test("with SQL, the position and what the handler wrote are one transaction", async () => {
    const database = openSqlite(join(dir, "effects.db"));
    database.exec("CREATE TABLE effects (number INTEGER)");
    let fails = 0;
    const store = sqliteStore(() => openSqlite(join(dir, "effects.db")));
    const send = through(orderGuard({ store, ...quiet }), async ({ sequence }, tx) => {
      // The program's own handle is in no transaction of the guard.
      database.exec("BEGIN; ROLLBACK");
      tx.prepare("INSERT INTO effects VALUES (?)").run(sequence);
      await pause(1);
      if (fails++ === 0) throw new Error("after the write");
    });
    assert.deepEqual([await send(1), await send(1), await send(1)], [500, 204, 204]);
    assert.deepEqual(database.prepare("SELECT number FROM effects").all(), [{ number: 1 }]);
  });

  test("a handle of the program that is in a transaction is refused", async () => {
    const database = openSqlite(join(dir, "busy.db"));
    let errors = [];
    const send = through(orderGuard({ store: sqliteStore(database), onError: ({ message }) => errors.push(message) }), () => {});
    assert.equal(await send(1), 204);
    for (const name of ["inTransaction", "isTransaction"]) {
      database[name] = true;
      assert.throws(() => sqliteStore(database), /is in a transaction of the program: use sqliteStore\(\(\) => new Database\(path\)\)/);
      assert.equal(await send(2), 500);
      assert.match(errors.pop(), /is in a transaction/);
      database[name] = false;
    }
    assert.equal(await send(2), 204);
  });

  test("a handler that was given up cannot write any more, and SQLite goes on", async () => {
    const file = join(dir, "late.db");
    const database = openSqlite(file);
    database.exec("CREATE TABLE effects (number INTEGER)");
    let go;
    const late = [];
    const store = sqliteStore(() => openSqlite(file));
    const send = through(orderGuard({ store, attemptTimeoutMs: 50, ...quiet }), async ({ sequence }, tx) => {
      tx.prepare("INSERT INTO effects VALUES (?)").run(sequence);
      if (go) return;
      await new Promise((resolve) => (go = resolve));
      try {
        tx.prepare("INSERT INTO effects VALUES (99)").run();
      } catch (error) {
        late.push(error);
      }
    });
    assert.deepEqual([await send(1), await send(1)], [500, 204]);
    go();
    await until("it has tried", () => late.length === 1);
    assert.deepEqual(database.prepare("SELECT number FROM effects").all(), [{ number: 1 }]);
  });

  /** A pool as that of `pg`: `connect` waits without limit while all connections are in use. */
  function pgPool(max, rows = new Map()) {
    const waiting = [];
    const pool = { options: { max }, used: 0, usedMax: 0, broken: 0 };
    pool.connect = async () => {
      while (pool.used === max) await new Promise((resolve) => waiting.push(resolve));
      pool.used += 1;
      pool.usedMax = Math.max(pool.usedMax, pool.used);
      let isReleased = false;
      return {
        async query(sql, [lane, ...rest] = []) {
          assert.ok(!isReleased, "the connection is not the caller's any more");
          await pause(1);
          if (sql.startsWith("UPDATE")) rows.set(rest[3], { epoch: lane, sequence: rest[0], is_first: rest[1] });
          return { rows: sql.startsWith("SELECT") ? [rows.get(lane) ?? { epoch: 0, sequence: 0, is_first: 0 }] : [] };
        },
        release(isBroken) {
          isReleased = true;
          pool.used -= 1;
          if (isBroken) pool.broken += 1;
          waiting.shift()?.();
        },
      };
    };
    return pool;
  }

  test("deliveries leave connections of the pool to their handlers", async () => {
    const pool = pgPool(4);
    let inProgress = 0;
    let most = 0;
    const send = through(orderGuard({ store: postgresStore(pool), attemptTimeoutMs: 10_000, ...quiet }), async () => {
      most = Math.max(most, (inProgress += 1));
      const client = await pool.connect();
      await client.query("SELECT 1");
      client.release();
      inProgress -= 1;
    });
    const statuses = await Promise.all(Array.from({ length: 30 }, (_, at) => send(1, { key: `k${at}`, previous: 0 })));
    assert.deepEqual([[...new Set(statuses)], most], [[204], 2]);
    assert.throws(() => sqlStore({ dialect: "mysql", deliveriesMax: 0 }), RangeError);
  });

  test("a request that gets no connection, or whose handler hangs, is given up, and says so", async () => {
    const pool = pgPool(2);
    const errors = [];
    let isHanging = true;
    const send = through(orderGuard({ store: postgresStore(pool), attemptTimeoutMs: 500, onError: ({ message }) => errors.push(message) }), (_, tx, { signal }) => {
      if (isHanging) return new Promise(() => signal.addEventListener("abort", () => (isHanging = false)));
    });
    assert.equal(await send(1), 500);
    assert.match(errors.pop(), /the handler has not finished within 500 ms \(attemptTimeoutMs\)/);
    assert.deepEqual([pool.used, pool.broken], [0, 1]);

    // The rest of the program has all connections.
    const others = [await pool.connect(), await pool.connect()];
    assert.deepEqual([await send(1), await send(1)], [500, 500]);
    assert.match(errors.pop(), /no turn in its lane and no connection of the store within 500 ms/);
    for (const other of others) other.release();
    assert.equal(await send(1), 204);
    assert.deepEqual([pool.used, pool.broken], [0, 1]);
  });
});
