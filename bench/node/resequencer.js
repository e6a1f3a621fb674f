// BullMQ with two Lua scripts of your own: work in parallel, results to a receiver in the order of each key.
// docs/how-to/move-from-bullmq-or-kue.md says what it lacks. `node bench/node/resequencer.test.js` kills its processes.
import { randomUUID } from 'node:crypto'
import { DelayedError, Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'

// Numbers an order within its key. The same id gets the same number.
const STAMP = `
local known = redis.call('HGET', KEYS[2], ARGV[1])
if known then return tonumber(known) end
local number = redis.call('INCR', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[1], number)
return number`

// Removes the result that was delivered, and returns the next one. If it is not there yet, the turn ends.
const NEXT = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('LOST another turn has begun') end
if ARGV[2] ~= '' then
  redis.call('HDEL', KEYS[3], ARGV[2])
  redis.call('SET', KEYS[2], ARGV[2])
end
local head = tonumber(redis.call('GET', KEYS[2]) or 0) + 1
local result = redis.call('HGET', KEYS[3], head)
if not result then redis.call('DEL', KEYS[1]) return false end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {head, result}`

export function resequencer(connection, { turnMs = 30_000, concurrency = 8 } = {}) {
  const redis = new Redis(connection)
  redis.defineCommand('stamp', { numberOfKeys: 2, lua: STAMP })
  redis.defineCommand('next', { numberOfKeys: 3, lua: NEXT })
  const defaultJobOptions = { attempts: 1_000, backoff: { type: 'fixed', delay: 200 }, removeOnComplete: true }
  const [jobs, turns] = ['jobs', 'turns'].map((name) => new Queue(name, { connection, defaultJobOptions }))
  return {
    async send(key, id, body) {
      const number = await redis.stamp(`last:${key}`, `ids:${key}`, id)
      await jobs.add('work', { key, number, body }, { jobId: `${key}/${number}` })
    },
    work: (handle) => new Worker('jobs', async ({ data: { key, number, body } }) => {
      await redis.hset(`results:${key}`, number, JSON.stringify(await handle(body)))
      await turns.add('turn', { key })
    }, { connection, concurrency }),
    deliver: (accept) => new Worker('turns', async (job, lock) => {
      const [{ key }, token] = [job.data, randomUUID()]
      if (!(await redis.set(`turn:${key}`, token, 'PX', turnMs, 'NX'))) {
        await job.moveToDelayed(Date.now() + 50, lock)
        throw new DelayedError()
      }
      for (let done = ''; ;) {
        const next = await redis.next(`turn:${key}`, `delivered:${key}`, `results:${key}`, token, done, turnMs)
        if (!next) return
        await accept(key, next[0], JSON.parse(next[1]))
        done = next[0]
      }
    }, { connection, concurrency }),
  }
}
