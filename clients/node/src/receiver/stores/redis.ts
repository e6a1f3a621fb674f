import { randomUUID } from "node:crypto";
import { checkOptions } from "../../options.js";
import { pause } from "../../timing.js";
import { Turns, type LaneState, type OrderStore } from "../store.js";

/** A client of `ioredis` or of `redis`. */
export type RedisClient =
  | { call(command: string, ...args: (string | number)[]): Promise<unknown> }
  | { sendCommand(args: string[]): Promise<unknown> };

export interface RedisStoreOptions {
  /** Prefix of the keys. */
  prefix?: string | undefined;
  /** While a handler runs, other processes wait this long for it at most after this process died. */
  lockMs?: number | undefined;
}

const LOCK_POLL_MS = 20;

// A lane is a hash: epoch, sequence, first, and who handles a message now. `<prefix>:idle` sorts lanes by time.
const SCRIPTS = {
  // Takes the lane, or answers that somebody else has it.
  lock: `
    local lock = redis.call('GET', KEYS[2])
    if lock and lock ~= ARGV[1] then return 'busy' end
    redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
    return redis.call('HMGET', KEYS[1], 'epoch', 'sequence', 'first')`,
  // Never goes back: a process that was paused for longer than its lock stores nothing older.
  record: `
    local epoch, sequence = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'sequence'))
    if epoch then
      local e, s = tonumber(epoch), tonumber(sequence)
      local newE, newS = tonumber(ARGV[1]), tonumber(ARGV[2])
      if newE < e or (newE == e and newS <= s) then return 0 end
    end
    redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'sequence', ARGV[2], 'first', ARGV[3])
    redis.call('ZADD', KEYS[2], ARGV[4], ARGV[5])
    return 1`,
  unlock: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
  extend: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`,
  forget: `
    local epoch, sequence = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'sequence'))
    if epoch and (epoch ~= ARGV[1] or sequence ~= ARGV[2]) then return 0 end
    redis.call('DEL', KEYS[1])
    return redis.call('ZREM', KEYS[2], ARGV[3])`,
};

/** Keeps positions in Redis, for receivers of several processes. All keys share a hash tag. */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): OrderStore<undefined> {
  checkOptions(options, { prefix: true, lockMs: true }, "redisStore");
  const { prefix = "reseq-guard", lockMs = 30_000 } = options;
  const run = (...args: (string | number)[]) =>
    "call" in client ? client.call(String(args[0]), ...args.slice(1)) : client.sendCommand(args.map(String));
  const evaluate = (script: string, keys: string[], args: (string | number)[]) => run("EVAL", script, keys.length, ...keys, ...args);
  const laneKey = (lane: string) => `{${prefix}}:lane:${lane}`;
  const lockKey = (lane: string) => `{${prefix}}:lock:${lane}`;
  const idleKey = `{${prefix}}:idle`;
  // Requests to this process take turns without polling Redis.
  const turns = new Turns();

  async function locked(lane: string, token: string): Promise<LaneState | undefined> {
    for (;;) {
      const answer = await evaluate(SCRIPTS.lock, [laneKey(lane), lockKey(lane)], [token, lockMs]);
      if (answer !== "busy") {
        const [epoch, sequence, first] = answer as (string | null)[];
        return epoch ? { epoch: Number(epoch), sequence: Number(sequence), isFirst: first === "1" } : undefined;
      }
      await pause(LOCK_POLL_MS * (0.5 + Math.random()));
    }
  }

  return {
    within: (lane, work) =>
      turns.run(lane, async () => {
        const token = randomUUID();
        const last = await locked(lane, token);
        const extending = setInterval(() => {
          evaluate(SCRIPTS.extend, [lockKey(lane)], [token, lockMs]).catch(() => {});
        }, lockMs / 3);
        try {
          return await work({
            last,
            tx: undefined,
            async record({ epoch, sequence, isFirst }) {
              await evaluate(SCRIPTS.record, [laneKey(lane), idleKey], [epoch, sequence, isFirst ? 1 : 0, Date.now(), lane]);
            },
          });
        } finally {
          clearInterval(extending);
          // Without an answer the lock ends by itself.
          await evaluate(SCRIPTS.unlock, [lockKey(lane)], [token]).catch(() => {});
        }
      }),
    async idleSince(timeMs, limit) {
      const lanes = (await run("ZRANGE", idleKey, "-inf", `(${timeMs}`, "BYSCORE", "LIMIT", 0, limit)) as string[];
      return Promise.all(
        lanes.map(async (lane) => {
          const [epoch, sequence, first] = (await run("HMGET", laneKey(lane), "epoch", "sequence", "first")) as (string | null)[];
          return { lane, state: { epoch: Number(epoch), sequence: Number(sequence), isFirst: first === "1" } };
        }),
      );
    },
    async forget(lane, { epoch, sequence }) {
      await evaluate(SCRIPTS.forget, [laneKey(lane), idleKey], [String(epoch), String(sequence), lane]);
    },
  };
}
