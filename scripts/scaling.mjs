// Simulates how shards spread one destination over the primaries of a Redis Cluster, and prints the tables of
// docs/explanation/scaling.md. Its costs come from measurements; table 2 compares it with them. Run it like this:
//   node scripts/scaling.mjs [seed]      (a whole number from 1 on; without one: 1)
const SEED = Number(process.argv[2] ?? 1);

/** CPU of a primary, in µs. Fitted together to the first rows of table 2; each depends most on the row in brackets. */
const COST = {
  call: 50, // a call of a script, whatever it carries (1,000 keys, 2,000 a second)
  block: 20, // the part of a call that belongs to one shard (1,000 destinations)
  message: 11, // a message, in its four calls together (one lane)
  lane: 19, // with keys: a visit of one lane in a call that releases (100 ordering keys)
  empty: 14, // with keys: a lane that becomes empty, and is created again for the next message (1,000,000 keys)
};
const GAP = 600; // between two calls of a client in Redis, in µs (the p50 of the rows that have one)
const [INGEST_MAX, BATCH_MAX, RUN_MAX] = [512, 256, 128]; // of a shard in a call, the same in others, of a lane
const PENDING = 2000; // messages on their way for each primary, when the producers send as fast as they can
const WARM_UP = 200_000; // figures count from here, in µs

// ---- Where a shard belongs: the rule of Reseq ----
const crc16 = (text) => Buffer.from(text).reduce((crc, byte) => { // XMODEM
  crc ^= byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  return crc;
}, 0);

const slotOf = (partition) => crc16(`p${String(partition).padStart(2, "0")}`) % 16384;
const primaryOf = (partition, primaries) => Math.floor((slotOf(partition) * primaries) / 16384);

/** The partition of each shard: in the other half of the slots that its parent has had to itself. */
function placement(name, shards, partitions) {
  const slots = Array.from({ length: partitions }, (_, partition) => slotOf(partition));
  const placed = [crc16(name) % partitions];
  const targets = [slots[placed[0]]];
  for (let shard = 1; shard < shards; shard += 1) {
    const level = 31 - Math.clz32(shard);
    const half = 2 ** (13 - level);
    const target = targets[shard - 2 ** level] ^ half ^ (crc16(`${name}~${shard}`) % half);
    const taken = new Set(placed.slice(shard - (shard % partitions))); // each partition once, then each twice, ...
    const free = [...slots.keys()].filter((partition) => !taken.has(partition));
    placed.push(free.reduce((best, p) => ((slots[p] ^ target) < (slots[best] ^ target) ? p : best)));
    targets.push(target);
  }
  return placed;
}

// ---- Load ----
const random = (seed) => () => (seed = (seed * 48271) % 2147483647) / 2147483647; // Park and Miller, 1993
const exponential = (mean, next) => -mean * Math.log(next());
/** The shard of each key, as a good hash spreads them. Reseq uses CRC-64 and the jump consistent hash. */
const spread = (keys, shards, next) => Uint16Array.from({ length: keys }, () => Math.floor(next() * shards));
const uniform = (keys) => (next) => Math.floor(next() * keys);
/** Zipf's law, by the inverse of its integral: the share of key k falls as k ** -exponent. */
const zipf = (keys, exponent) => (next) =>
  Math.floor((1 + next() * (keys ** (1 - exponent) - 1)) ** (1 / (1 - exponent))) - 1;
/** Key 0 gets `share` of the messages, the others get equal parts of the rest. */
const hot = (keys, share) => (next) => (next() < share ? 0 : 1 + Math.floor(next() * (keys - 1)));

// ---- The simulation ----
const [INGEST, CLAIM, COMPLETE, RELEASE] = [0, 1, 2, 3];

/**
 * One destination. The load is `rate` (messages/s, Poisson), or `pending` messages on their way at all times. A
 * *client* is one role of one pod at one primary, with one call on its way. Whatever comes meanwhile goes into its next
 * call, as a block for each shard. A primary runs one call at a time, first come, first served. Times are in µs.
 */
function simulate({ rate, pending = 0, keys, draw = uniform(keys), shards = 1, primaries = 1, pods = 1, ...options }) {
  const next = random(SEED);
  const { shardOf = spread(keys, shards, next), isKeyed = true, work = () => exponential(5000, next) } = options;
  const { partitions = 64, seconds = 0.3 } = options;
  const places = placement("orders", shards, partitions);
  const primaryOfShard = places.map((partition) => primaryOf(partition, primaries));
  const servers = Array.from({ length: primaries }, () => ({ queue: [], isBusy: false, busy: 0 }));
  const clients = new Map();
  const lanes = Array.from({ length: keys }, () => []); // the messages of each key, in order
  const [dwell, dwellOfKey0] = [[], []];
  const end = WARM_UP + seconds * 1e6;
  const timeline = new Array(2 * end); // what to do in each µs
  let now = 0;
  const after = (time, run) => (timeline[Math.ceil(now + time)] ??= []).push(run);
  const anyPod = () => Math.floor(next() * pods);

  /** Gives a message to a client, for its next call. To release a lane, any of its messages will do. */
  function enqueue(role, pod, message) {
    const shard = shardOf[message.key];
    const id = (role * pods + pod) * primaries + primaryOfShard[shard];
    if (!clients.has(id)) clients.set(id, { role, server: servers[primaryOfShard[shard]], waiting: new Map() });
    const client = clients.get(id);
    client.waiting.get(shard)?.push(message) ?? client.waiting.set(shard, [message]);
    if (!client.isCalling) call(client);
  }

  function call(client) {
    client.isCalling = true;
    if (client.role === INGEST || client.role === COMPLETE) client.blocks = takeBlocks(client);
    after(GAP / 2, () => {
      client.server.queue.push(client);
      if (!client.server.isBusy) serve(client.server);
    });
  }

  const takeBlocks = ({ role, waiting }) => [...waiting].map(([shard, messages]) => {
    const block = messages.splice(0, role === INGEST ? INGEST_MAX : BATCH_MAX);
    if (messages.length === 0) waiting.delete(shard);
    return block;
  });

  function serve(server) {
    const client = server.queue.shift();
    const blocks = client.blocks ?? takeBlocks(client); // a claim or a release takes what is there when it runs
    const visited = client.role === RELEASE ? blocks.flat().map(({ key }) => lanes[key]) : [];
    const messages = client.role === RELEASE ? visited.flatMap(takeRun) : blocks.flat();
    const more = visited.map((lane) => lane[0]).filter((head) => head?.isReady); // the run was full
    let time = COST.call + COST.block * blocks.length + (COST.message / 4) * messages.length;
    if (isKeyed) for (const lane of visited) time += COST.lane + (lane.length > 0 ? 0 : COST.empty);
    if (now >= WARM_UP) server.busy += time;
    server.isBusy = true;
    after(time, () => {
      server.isBusy = false;
      if (server.queue.length > 0) serve(server);
    });
    after(time + GAP / 2, () => {
      Object.assign(client, { blocks: undefined, isCalling: false });
      more.forEach(release);
      messages.forEach(FINISH[client.role]);
      if (client.waiting.size > 0 && !client.isCalling) call(client);
    });
  }

  function takeRun(lane) { // removes the ready messages at its front
    let ready = 0;
    while (ready < RUN_MAX && lane[ready]?.isReady) ready += 1;
    return lane.splice(0, ready);
  }

  const release = (message) => enqueue(RELEASE, places[shardOf[message.key]] % pods, message); // to its sender
  const FINISH = { // what follows a call, for each of its messages
    [INGEST](message) {
      lanes[message.key].push(message);
      enqueue(CLAIM, 0, message); // the processors agree on which of them claims
    },
    [CLAIM]: (message) => after(work(), () => enqueue(COMPLETE, anyPod(), message)),
    [COMPLETE](message) {
      message.isReady = true;
      if (lanes[message.key][0] === message) release(message);
    },
    [RELEASE]({ key, arrivedAt }) {
      if (now >= WARM_UP) (key === 0 ? dwellOfKey0 : dwell).push((now - arrivedAt) / 1000);
      if (pending) arrive();
    },
  };

  const arrive = () => enqueue(INGEST, anyPod(), { key: draw(next), arrivedAt: now, isReady: false });
  for (let i = 0; i < pending; i += 1) after(next() * 20_000, arrive);
  let arrival = rate ? 0 : Infinity;
  for (; now < end; now += 1) {
    for (; arrival <= now; arrival += exponential(1e6 / rate, next)) arrive();
    for (const run of timeline[now] ?? []) run();
    timeline[now] = undefined;
  }
  const busy = servers.map((server) => Math.min(1, server.busy / seconds / 1e6));
  const total = busy.reduce((sum, share) => sum + share, 0);
  const all = Float64Array.from([...dwell, ...dwellOfKey0]).sort();
  const at = (values, share) => values[Math.floor(values.length * share)];
  return { rate: all.length / seconds, us: (total * seconds * 1e6) / all.length, busiest: Math.max(...busy), total,
    p50: at(all, 0.5), p99: at(all, 0.99), p99OfKey0: at(Float64Array.from(dwellOfKey0).sort(), 0.99) };
}

// ---- Tables ----
const show = (value, digits = 0) => value?.toLocaleString("en-US",
  { minimumFractionDigits: digits, maximumFractionDigits: digits }) ?? "–";
const dwell = ({ p50, p99 }) => `${show(p50, 1)} / ${show(p99, 1)}`;
const line = (cells) => `| ${cells.join(" | ")} |`;
const print = (title, columns, rows) => console.log([`\n**${title}**\n`, line(columns),
  line(columns.map((_, i) => (i === 0 ? "---" : "---:"))), ...rows.map(line)].join("\n"));
const COUNTS = [4, 8, 16, 64, 256];
const busiestOf = (primaries) => Math.max(...primaries.map((one) => primaries.filter((p) => p === one).length));
print("Table 1. Shards on the busiest primary: the worst of 50 names (and an even share)",
  ["primaries, partitions", ...COUNTS.map((shards) => `${shards} shards`)],
  [[3, 64], [4, 64], [6, 64], [8, 64], [16, 64], [16, 256], [64, 256], [64, 1024]].map(([primaries, partitions]) => {
    const names = Array.from({ length: 50 }, (_, i) => placement(`orders-${i}`, 256, partitions));
    const placed = names.map((partitionsOfShards) => partitionsOfShards.map((p) => primaryOf(p, primaries)));
    const worst = (shards) => Math.max(...placed.map((all) => busiestOf(all.slice(0, shards))));
    return [`${primaries}, ${partitions}`, ...COUNTS.map((n) => `${worst(n)} (${Math.ceil(n / primaries)})`)];
  }));

const [fixed, none, full] = [{ work: () => 5000 }, { work: () => 0 }, { pending: PENDING }];
const destinations = (keys) => ({ keys, shards: keys, shardOf: [...Array(keys).keys()], isKeyed: false, ...fixed });
print(`Table 2. Measured / simulated (${Object.entries({ ...COST, GAP }).map((c) => c.join(" ")).join(", ")} µs)`,
  ["row", "fitted", "messages/s", "CPU, µs", "p50, ms", "p99, ms"], [
    ["one lane, 1000 in work", "CPU", 64431, 13.6, , , { keys: 1, isKeyed: false, ...full, ...fixed }],
    ["100 ordering keys, 1000 in work", "CPU", 45476, 20.1, , , { keys: 100, ...full, ...fixed }],
    ["the same at half of that load", "CPU, p50", 22711, 32.7, 14.7, 23.4, { keys: 100, ...fixed }],
    ["1,000 keys, 2,000 a second", "CPU, p50", 1998, 209, 7.5, 13.8, destinations(1000)],
    ["1,000 destinations, one at a time", "CPU", 9934, 80.5, , , { ...destinations(1000), ...none, pending: 1000 }],
    ["1,000,000 keys, `--pending 1000`", "CPU", , 45.4, , , { keys: 1e6, pending: 1000, ...none }],
    ["1,000 keys, 4,000 a second", "", 3997, 148, 8.3, 26.4, destinations(1000)],
    ["1,000 keys, 2,000 a second, 3 processes", "", 1998, 243, 10, 25.7, { ...destinations(1000), pods: 3 }],
    ["1,000 keys, 4,000 a second, 3 processes", "", 3994, 142, 16.4, 51.1, { ...destinations(1000), pods: 3 }],
    ["100 destinations, 1000 in work", "", 47397, 18.6, , , { ...destinations(100), ...full }],
    ["the same at half of that load", "", 23581, 35.4, 65.9, 102, destinations(100)],
  ].map(([name, fitted, rate, us, p50, p99, load]) => {
    const got = simulate(load.pending ? load : { ...load, rate, seconds: 2 });
    const pair = (measured, simulated, digits) => `${show(measured, digits)} / ${show(simulated, digits)}`;
    const [low, high] = load.pending ? ["", ""] : [pair(p50, got.p50, 1), pair(p99, got.p99, 1)];
    return [name, fitted, pair(rate, got.rate), pair(us, got.us, 1), low, high];
  }));

const cluster = (primaries, shards, more) => ({ primaries, shards, keys: 100_000, pods: Math.max(1, primaries / 4),
  partitions: Math.max(64, 16 * primaries), seconds: Math.min(primaries, shards) < 16 ? 0.3 : 0.1, ...more });
const most = (load) => simulate({ ...load, pending: PENDING * Math.min(load.primaries, load.shards) }).rate;
const cell = (load, rate, maximum) => {
  if (rate > maximum) return "above the most";
  const got = simulate({ ...load, rate });
  return `${show(got.busiest, 2)}; ${dwell(got)}`;
};

const one = [100, 1000, 100_000].map((keys) => cluster(1, 1, { keys }));
const mostOfOne = one.map(most);
print("Table 3. One shard: busy share; p50 / p99 in ms", ["messages/s", "100 keys", "1,000 keys", "100,000 keys"], [
  ...[5e3, 1e4, 15e3, 2e4, 3e4, 4e4, 5e4, 6e4].map((rate) =>
    [show(rate), ...one.map((load, i) => cell(load, rate, mostOfOne[i]))]),
  ["the most", ...mostOfOne.map((rate) => show(rate))],
]);

print("Table 4. 100,000 keys: the most messages/s, and at 70 % of it the load and the dwell",
  ["primaries", "shards", "the most", "70 % of it", "busiest primary", "mean of the primaries", "p50 / p99, ms"],
  [1, 4, 16, 64].flatMap((primaries) => [1, 4, 16, 64, 256].map((shards) => {
    const maximum = most(cluster(primaries, shards));
    const got = simulate({ ...cluster(primaries, shards), rate: 0.7 * maximum });
    const [busiest, mean] = [show(got.busiest, 2), show(got.total / primaries, 2)];
    return [primaries, shards, show(maximum), show(0.7 * maximum), busiest, mean, dwell(got)];
  })));

const LARGE = [[16, 100_000], [64, 100_000], [64, 6400], [128, 100_000]];
print("Table 5. 256 shards: busiest primary; p50 / p99 in ms", ["messages/s",
  ...LARGE.map(([primaries, keys]) => `${primaries} primaries, ${show(keys)} keys`)],
  [1e5, 25e4, 5e5, 1e6, 15e5, 2e6].map((rate) => [show(rate), ...LARGE.map(([primaries, keys]) =>
    cell(cluster(primaries, 256, { keys }), rate, primaries * mostOfOne[keys < 1e5 ? 0 : 2]))]));

const skewed = (name, draw, counts = [64]) => counts.map((shards) =>
  [`${name}, ${shards} shard${shards > 1 ? "s" : ""}`, cluster(16, shards, { draw, seconds: 0.4 })]);
print("Table 6. 16 primaries, 100,000 keys: p99 of all / p99 of the key with the most messages, in ms",
  ["keys, shards", "100,000 messages/s", "200,000 messages/s", "300,000 messages/s"], [
    ...skewed("equal", uniform(1e5)), ...skewed("Zipf 0.8", zipf(1e5, 0.8)), ...skewed("Zipf 0.99", zipf(1e5, 0.99)),
    ...skewed("one has 5 %", hot(1e5, 0.05), [1, 16, 64, 256]), ...skewed("one has 20 %", hot(1e5, 0.2)),
  ].map(([name, load]) => [name, ...[1e5, 2e5, 3e5].map((rate) => {
    const { rate: delivered, p99, p99OfKey0 } = simulate({ ...load, rate });
    if (delivered < 0.97 * rate || p99OfKey0 > 200) return "falls behind";
    return name.startsWith("equal") ? show(p99, 1) : `${show(p99, 1)} / ${show(p99OfKey0, 1)}`;
  })]));
