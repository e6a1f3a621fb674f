// Runs the pages that bring messages of other systems into Reseq: their own blocks, with other addresses, against a
// real Reseq. Meanwhile the program that copies and Reseq are killed in turn (kill -9), with messages on their way.
// Checks that each message is stored once, and that those of a key arrive in order.
//
//   node scripts/recipes-connect.mjs [kafka|debezium|camel]…       (without a name: all)
//
// RESEQ_BIN and RESEQ_CONNECT_BIN are the programs. What else a recipe needs is fetched with Maven into a folder
// `recipes` where cargo builds. KILLS (4) says how often something is killed.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { freePort } from "../clients/node/test/support/processes.mjs";

const ROOT = resolve(import.meta.dirname, "..");
const KILLS = Number(process.env.KILLS ?? 4);
const KEYS = 20;
/** The longest wait for something, in ms. */
const WAIT_MAX = 180_000;
/** Options for small Java programs. */
const JAVA = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
/** The environment without the settings of this script: Reseq refuses variables that it does not know. */
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("RESEQ_")));
const IS_ROOT = process.getuid() === 0;

const say = (text) => console.log(`recipes: ${text}`);
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

async function until(what, ask, everyMs = 50) {
  for (const end = Date.now() + WAIT_MAX; Date.now() < end; await pause(everyMs)) {
    const answer = await Promise.resolve().then(ask).catch(() => false);
    if (answer) return answer;
  }
  throw new Error(`not in ${WAIT_MAX / 1000} s: ${what}`);
}

const answers = (port) =>
  new Promise((resume) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.on("connect", () => socket.destroy(resume(true)));
    socket.on("error", () => resume(false));
  });

/** The blocks of a page in one language, without their indentation. */
function blocks(page, language) {
  const text = readFileSync(join(ROOT, "docs/how-to", page), "utf8");
  const found = [...text.matchAll(/^( *)```(\w+)\n([\s\S]*?)^ *```$/gm)].filter((block) => block[2] === language);
  assert(found.length > 0, `${page} has no block of ${language}`);
  return found.map(([, indent, , body]) => body.replaceAll(new RegExp(`^${indent}`, "gm"), ""));
}

/** A text with these parts replaced; each must be there. */
function replaced(text, parts) {
  for (const [from, to] of Object.entries(parts)) {
    assert(text.includes(from), `${from} is not in:\n${text}`);
    text = text.replaceAll(from, to);
  }
  return text;
}

/** One recipe: its folder, its processes, and what arrived. */
class World {
  constructor(name) {
    this.folder = mkdtempSync(join(tmpdir(), `reseq-${name}-`));
    this.kept = [];
    this.isOver = false;
  }

  /** Starts a program, and again whenever it ends, as systemd does. Returns how to kill it. */
  keep(name, command, args, options = {}) {
    const one = { name, child: undefined };
    const log = openSync(join(this.folder, `${name}.log`), "a");
    const start = () => {
      if (this.isOver) return;
      one.child = spawn(command, args, { cwd: this.folder, stdio: ["ignore", log, log], env: ENVIRONMENT, ...options });
      one.child.on("error", (error) => say(`${name}: ${error.message}`));
      one.child.on("exit", () => setTimeout(start, 500));
    };
    start();
    this.kept.push(one);
    return { kill: () => one.child.kill("SIGKILL") };
  }

  /** Runs commands with this input. Returns their output. Asynchronous, because this process is also the receiver. */
  async run(commands, input = "") {
    const env = { ...ENVIRONMENT, PATH: `${join(this.folder, "bin")}:${process.env.PATH}` };
    const log = openSync(join(this.folder, "commands.log"), "a");
    const child = spawn("bash", ["-ec", commands], { cwd: this.folder, env, stdio: ["pipe", "pipe", log] });
    // A command that ends early has another code.
    child.stdin.on("error", () => {}).end(input);
    const printed = child.stdout.setEncoding("utf8").toArray();
    const [code] = await once(child, "exit");
    assert.equal(code, 0, `${commands}: commands.log says why`);
    return (await printed).join("");
  }

  write(name, text) {
    mkdirSync(dirname(join(this.folder, name)), { recursive: true });
    writeFileSync(join(this.folder, name), text, { mode: 0o755 });
  }

  /** Redis, Reseq and a receiver. */
  async start() {
    this.arrived = new Map();
    this.count = 0;
    this.mistakes = [];
    this.receiver = createServer((request, response) => {
      const parts = [];
      request.on("data", (part) => parts.push(part));
      request.on("end", () => {
        this.arrives(request.headers, JSON.parse(Buffer.concat(parts).toString()));
        response.end();
      });
    }).listen(0, "127.0.0.1");
    await once(this.receiver, "listening");
    const [redis, reseq] = [await freePort(), await freePort()];
    this.url = `http://127.0.0.1:${reseq}`;
    this.keep("redis", "redis-server", ["--port", redis, "--bind", "127.0.0.1", "--appendonly", "yes", "--save", ""]);
    this.write("reseq.toml", `http.listen = "127.0.0.1:${reseq}"\nredis.url = "redis://127.0.0.1:${redis}"\noutgoing.allow = ["127.0.0.0/8"]\n`);
    await until("Redis answers", () => answers(redis));
    this.reseq = this.keep("reseq", process.env.RESEQ_BIN, ["serve", "--config", "reseq.toml"]);
    await until("Reseq answers", async () => (await fetch(`${this.url}/readyz`)).ok);
    /** The addresses in the pages, and those to use instead. */
    this.parts = { "http://127.0.0.1:8080": this.url };
    this.hooks = { ...this.parts, "https://customer.example/hooks": `http://127.0.0.1:${this.receiver.address().port}/hooks` };
  }

  arrives(headers, { n }) {
    const [key, id] = [headers["reseq-key"], headers["reseq-id"]];
    const { last = 0, ids = new Map() } = this.arrived.get(key) ?? {};
    // Reseq repeats a delivery if it was killed before it knew of the answer: it has the same id.
    const isRepeat = ids.get(n) === id;
    if (!isRepeat && n !== last + 1) this.mistakes.push(`${key}: ${n} after ${last}`);
    if (!isRepeat) this.count += 1;
    this.arrived.set(key, { last: Math.max(last, n), ids: ids.set(n, id) });
  }

  /** How many messages Reseq has stored. */
  async stored() {
    const answer = await fetch(`${this.url}/v1/destinations/hooks/stats`);
    assert(answer.ok, `stats: ${answer.status}`);
    return (await answer.json()).last_sequence;
  }

  /**
   * Writes messages `[key, {n}]` in rounds of `size`. In each round, the program that copies or Reseq is killed as soon
   * as Reseq has the first messages.
   */
  async storm({ write, program, size }) {
    let [written, between] = [0, 0];
    const begun = Date.now();
    const round = () =>
      Array.from({ length: size }, () => [`k${written % KEYS}`, { n: 1 + Math.floor(written++ / KEYS) }]);
    for (let kill = 0; kill < KILLS; kill += 1) {
      const before = written;
      const lines = round();
      const isBegun = until("the first messages of the round", async () => (await this.stored()) > before + size / 4, 5);
      const [, stored] = await Promise.all([write(lines), isBegun.then(() => this.stored()).then((stored) => {
        (kill % 2 === 0 ? program : this.reseq).kill();
        return stored;
      })]);
      if (stored < written) between += 1;
      await until("all messages are stored", async () => (await this.stored()) >= written);
    }
    await until("all messages have arrived", () => this.count >= written);
    assert.equal(await this.stored(), written, "each message is stored once");
    assert.deepEqual(this.mistakes, []);
    assert([...this.arrived.values()].every(({ last }) => last === written / KEYS));
    assert(between * 2 > KILLS, `only ${between} of ${KILLS} kills had messages on their way`);
    const rate = Math.round((1000 * written) / (Date.now() - begun));
    return `${written} messages once and in order, ${rate}/s with ${KILLS} kills (${between} amid messages)`;
  }

  async stop() {
    this.isOver = true;
    for (const { child } of this.kept.toReversed()) {
      if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL")) await once(child, "exit");
    }
    this.receiver?.close();
    this.receiver?.closeAllConnections();
  }
}

/** A folder that is filled once, and again if `what` is not as it was. */
function fetched(name, what, fill) {
  const target = execFileSync(join(ROOT, "scripts/target-dir.sh"), { encoding: "utf8" }).trim();
  const folder = join(target, "recipes", name);
  const stamp = join(folder, "fetched");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === what) return folder;
  say(`fetching ${name}`);
  for (const old of [folder, `${folder}.new`]) rmSync(old, { recursive: true, force: true });
  mkdirSync(`${folder}.new`, { recursive: true });
  fill(`${folder}.new`);
  writeFileSync(join(`${folder}.new`, "fetched"), what);
  renameSync(`${folder}.new`, folder);
  return folder;
}

/** Starts a Kafka with the topic `orders`. Its tools have the names that the pages use. */
async function kafka(world) {
  const jars = process.env.RESEQ_TEST_KAFKA ?? execFileSync(join(ROOT, "scripts/kafka.sh"), { encoding: "utf8" }).trim();
  const java = [...JAVA, "-cp", `${jars}/*`];
  const [port, controller] = [await freePort(), await freePort()];
  world.write("server.properties", `
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controller}
listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}
advertised.listeners=PLAINTEXT://127.0.0.1:${port}
controller.listener.names=CONTROLLER
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
num.partitions=4
log.dirs=${world.folder}/kafka
`);
  const tool = (name, main) =>
    world.write(`bin/${name}`, `#!/bin/sh\nexec java ${JAVA.join(" ")} -cp '${jars}/*' ${main} "$@"\n`);
  tool("kafka-console-producer.sh", "kafka.tools.ConsoleProducer");
  tool("kafka-topics.sh", "org.apache.kafka.tools.TopicCommand");
  tool("kafka-storage.sh", "kafka.tools.StorageTool");
  await world.run("kafka-storage.sh format -t MkU3OEVBNTcwNTJENDM2Qk -c server.properties");
  world.keep("kafka", "java", [...java, "kafka.Kafka", "server.properties"]);
  await until("Kafka answers", () => answers(port));
  await world.run(`kafka-topics.sh --bootstrap-server 127.0.0.1:${port} --create --topic orders`);
  return `127.0.0.1:${port}`;
}

const records = (lines) => lines.map(([key, body]) => `${key}:${JSON.stringify(body)}\n`).join("");

const RECIPES = {
  async kafka(world) {
    const page = "send-webhooks-from-kafka.md";
    const broker = await kafka(world);
    const [define, start, produce] = blocks(page, "sh");
    const [settings] = blocks(page, "toml");
    const here = { ...world.parts, "127.0.0.1:9092": broker, "[kafka]": "[kafka]\ntls = false" };
    await world.run(replaced(define, world.hooks));
    world.write("connect.toml", `http.listen = "127.0.0.1:${await freePort()}"\n${replaced(settings, here)}`);
    world.write("bin/reseq-connect", `#!/bin/sh\nexec ${process.env.RESEQ_CONNECT_BIN} "$@"\n`);
    const [check, run] = start.trim().split("\n");
    say(`check says:\n${await world.run(check)}`);
    const program = world.keep("reseq-connect", "bash", ["-ec", `exec ${replaced(run, { "reseq-connect run": `${process.env.RESEQ_CONNECT_BIN} run` })}`]);
    // The producer of the page, with other lines; then its last command.
    const [, producer, status] = /^echo .*? \| ([\s\S]*--property key.separator=:)\n(.*)$/m.exec(replaced(produce, { "127.0.0.1:9092": broker }));
    const result = await world.storm({ write: (lines) => world.run(producer, records(lines)), program, size: 20_000 });
    say(`status says:\n${await world.run(status)}`);
    return result;
  },

  async debezium(world) {
    const page = "send-from-debezium.md";
    const [version] = /(?<=debezium-server-dist\/)[^/]+/.exec(readFileSync(join(ROOT, "docs/how-to", page), "utf8"));
    const server = fetched("debezium", version, (folder) => {
      const artifact = `-Dartifact=io.debezium:debezium-server-dist:${version}:tar.gz`;
      execFileSync("mvn", ["-q", "-B", "dependency:copy", artifact, `-DoutputDirectory=${folder}`], { stdio: "inherit" });
      const archive = join(folder, `debezium-server-dist-${version}.tar.gz`);
      execFileSync("tar", ["xzf", archive, "--strip-components=1", "-C", folder, "--exclude=*/connectors/*", "--exclude=*/lib_opt/*"]);
      rmSync(archive);
    });
    const database = await postgres(world);
    const [create, insert] = blocks(page, "sql");
    await world.run(`psql ${database.options} -c 'CREATE DATABASE shop'`);
    const psql = `psql ${database.options} -q -v ON_ERROR_STOP=1 shop`;
    await world.run(psql, create);
    const [define, start] = blocks(page, "sh");
    await world.run(replaced(define, world.hooks));
    for (const name of ["lib", "run.sh", ...readdirSync(server).filter((name) => name.endsWith("-runner.jar"))]) {
      await world.run(`ln -s ${join(server, name)} ${name}`);
    }
    const here = { ...world.parts, "database.port=5432": `database.port=${database.port}` };
    world.write("conf/application.properties", `${replaced(blocks(page, "properties")[0], here)}quarkus.http.port=${await freePort()}\n`);
    const env = { ...ENVIRONMENT, JAVA_OPTS: JAVA.join(" ") };
    const program = world.keep("debezium", "bash", ["-ec", start], { env });
    await until("Debezium has its slot", async () => (await world.run(`${psql} -Atc "SELECT active FROM pg_replication_slots"`)).startsWith("t"), 500);
    // The statement of the page, with other values.
    const head = /^INSERT INTO .* VALUES /m.exec(insert)[0];
    const rows = (lines) => lines.map(([key, body]) => `${head} ('${key}', '${JSON.stringify(body)}');\n`).join("");
    return world.storm({ write: (lines) => world.run(psql, rows(lines)), program, size: 1_000 });
  },

  async camel(world) {
    const page = "send-from-camel.md";
    const [pom] = blocks(page, "xml");
    const [define, get, start] = blocks(page, "sh");
    const libraries = fetched("camel", pom, (folder) => {
      writeFileSync(join(folder, "pom.xml"), pom);
      execFileSync("bash", ["-ec", get], { cwd: folder, stdio: "inherit" });
    });
    const broker = await kafka(world);
    await world.run(replaced(define, world.hooks));
    await world.run(`ln -s ${join(libraries, "lib")} lib`);
    world.write("orders.yaml", replaced(blocks(page, "yaml")[0], { ...world.parts, "127.0.0.1:9092": broker }));
    const program = world.keep("camel", "bash", ["-ec", replaced(start, { "exec java": `exec java ${JAVA.join(" ")}` })]);
    const producer = `kafka-console-producer.sh --bootstrap-server ${broker} --topic orders --property parse.key=true --property key.separator=:`;
    return world.storm({ write: (lines) => world.run(producer, records(lines)), program, size: 1_000 });
  },
};

/** Starts a Postgres. Returns its port, and the options of psql. */
async function postgres(world) {
  const folders = readdirSync("/usr/lib/postgresql").map((name) => `/usr/lib/postgresql/${name}/bin`);
  const programs = folders.sort().pop();
  assert(programs, "PostgreSQL is missing (make setup-tests)");
  // It refuses to run as root.
  const [command, ...args] = IS_ROOT ? ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] : ["env"];
  const port = await freePort();
  const data = mkdtempSync(join(tmpdir(), "reseq-postgres-"));
  world.data = data;
  if (IS_ROOT) execFileSync("chown", ["nobody", data]);
  execFileSync(command, [...args, `${programs}/initdb`, "-D", `${data}/db`, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]);
  const settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "wal_level=logical"].flatMap((one) => ["-c", one]);
  world.keep("postgres", command, [...args, `${programs}/postgres`, "-D", `${data}/db`, "-p", port, ...settings]);
  const options = `-h 127.0.0.1 -p ${port} -U postgres`;
  await until("Postgres answers", () => world.run(`psql ${options} -Atc 'SELECT 1'`));
  return { port, options };
}

const missing = ["java", "mvn", "redis-server", "psql", "curl"].filter((name) => {
  return !process.env.PATH.split(":").some((folder) => existsSync(join(folder, name)));
});
if (missing.length > 0) {
  say(`${missing.join(", ")} missing; Debian: apt-get install openjdk-17-jre-headless maven; make setup-tests`);
  process.exit(1);
}

/** Nothing outlives this process, whatever happens. */
const worlds = [];
process.on("exit", () => worlds.flatMap((world) => world.kept).forEach(({ child }) => child.kill("SIGKILL")));
process.on("SIGINT", () => process.exit(130)).on("SIGTERM", () => process.exit(143));

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(RECIPES);
for (const name of names) {
  const world = new World(name);
  worlds.push(world);
  try {
    await world.start();
    say(`${name}: ${await RECIPES[name](world)}`);
    await world.stop();
    rmSync(world.folder, { recursive: true });
    if (world.data) rmSync(world.data, { recursive: true });
  } catch (error) {
    say(`${name} failed; its logs are in ${world.folder}`);
    console.error(error);
    process.exitCode = 1;
    await world.stop();
  }
}
