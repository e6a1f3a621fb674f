// Kills the processes of resequencer.js while orders are on their way. The orders of each key arrive in order; what
// arrives again is known by its number.
import assert from 'node:assert/strict'
import { fork, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { resequencer } from './resequencer.js'

const ORDERS = 1_000
const KEYS = 10
const port = Number(process.argv[2]) || (await new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address()
    server.close(() => resolve(port))
  })
}))
const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null }

if (process.argv[2]) {
  const { work, deliver } = resequencer(connection, { turnMs: 1_000 })
  const log = new Redis(connection)
  work(async (body) => (await pause(Math.random() * 40), { ...body, done: true })).on('error', () => {})
  deliver((key, number, result) => log.rpush('arrived', JSON.stringify({ key, number, ...result }))).on('error', () => {})
} else {
  const dir = mkdtempSync(`${tmpdir()}/resequencer-`)
  const server = spawn('redis-server', ['--port', port, '--bind', '127.0.0.1', '--dir', dir, '--save', ''], { stdio: 'ignore' })
  const start = () => fork(fileURLToPath(import.meta.url), [String(port)])
  const processes = []
  process.on('exit', () => [server, ...processes].forEach((each) => each.kill('SIGKILL')))
  const redis = new Redis(connection).on('error', () => {})
  await redis.ping()
  processes.push(start(), start())
  const { send } = resequencer(connection)
  const arrived = async () => (await redis.lrange('arrived', 0, -1)).map((text) => JSON.parse(text))
  const seen = async () => new Set((await arrived()).map(({ key, number }) => `${key}/${number}`)).size
  for (let at = 0; at < ORDERS; at += 1) await send(`key-${at % KEYS}`, `order-${at}`, { at })
  for (const part of [0.1, 0.3, 0.5, 0.7]) {
    while ((await seen()) < part * ORDERS) await pause(20)
    const at = Math.floor(Math.random() * 2)
    processes[at].kill('SIGKILL')
    processes[at] = start()
  }
  const end = Date.now() + 120_000
  while ((await seen()) < ORDERS && Date.now() < end) await pause(100)
  const all = await arrived()
  for (let key = 0; key < KEYS; key += 1) {
    let last = 0
    const numbers = all.filter((one) => one.key === `key-${key}`)
    const orders = numbers.filter(({ number }) => number > last && (last = number)).map(({ at }) => at)
    assert.deepEqual(orders, Array.from({ length: ORDERS / KEYS }, (_, at) => at * KEYS + key))
  }
  console.log(`${ORDERS} orders of ${KEYS} keys in order, ${all.length - ORDERS} came again, 4 processes were killed`)
  rmSync(dir, { recursive: true })
  process.exit(0)
}
