// Worker against worker: the no-op Worker of the Node.js client of Reseq, and BullMQ's. Each has a Redis of its own
// with an append-only file; they run one after the other, in turns, on the same machine.
//
//   node bench/node/workers.js --reseq target/release/reseq [--messages 50000] [--serial 2000] [--runs 3]
//
// flood:  all messages wait when the worker starts.
// sparse: 1,000 ordering keys, each with one message at a time: its next is sent when the one before is completed.
//         BullMQ has no keys: as many jobs at a time.
// serial: one message at a time in all; the next is sent when the one before is completed.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const text = { type: 'string' }
const { values } = parseArgs({
  options: { reseq: text, messages: text, serial: text, runs: text, concurrency: text, contestant: text, mode: text, address: text },
})
const number = (name, otherwise) => Number(values[name] ?? otherwise)
const messages = number('messages', 50_000)
const serial = number('serial', 2_000)
const concurrency = number('concurrency', 50)
const KEYS = 1_000
const body = (index) => ({ index, pad: 'x'.repeat(170) })

// Each contestant: `send(indexes)`, and `work(onCompleted)`, which starts its worker.
const contestants = {
  async reseq(address) {
    const { DROP, Reseq, Worker } = await import('reseq')
    const reseq = new Reseq({ url: address })
    const definition = { ordering: 'key', transform: { kind: 'worker' }, delivery: { kind: 'none' }, log_max: 0 }
    await reseq.define('bench', definition)
    return {
      send: (indexes) => reseq.sendBatch('bench', indexes.map((index) => ({ body: body(index), key: `key ${index % KEYS}` }))),
      work: (onCompleted) => new Worker('bench', () => DROP, { reseq, concurrency }).on('completed', onCompleted),
    }
  },
  async bullmq(address) {
    const { Queue, Worker } = await import('bullmq')
    const [host, port] = address.split(':')
    const connection = { host, port: Number(port), maxRetriesPerRequest: null }
    const queue = new Queue('bench', { connection, defaultJobOptions: { removeOnComplete: true } })
    await queue.waitUntilReady()
    return {
      send: (indexes) => queue.addBulk(indexes.map((index) => ({ name: 'job', data: body(index) }))),
      work: (onCompleted) => new Worker('bench', async () => {}, { connection, concurrency }).on('completed', onCompleted),
    }
  },
}

async function contest() {
  const { send, work } = await contestants[values.contestant](values.address)
  const range = (from, to) => Array.from({ length: to - from }, (_, at) => from + at)
  let completed = 0
  let wanted = Infinity
  let reached
  let onCompleted = () => {}
  const until = (count) => new Promise((resolve) => ((wanted = count), (reached = resolve), completed >= count && resolve()))
  const sendAll = async (from, to) => {
    for (let at = from; at < to; at += 1_000) await send(range(at, Math.min(to, at + 1_000)))
  }
  const start = () => work(() => {
    completed += 1
    onCompleted()
    if (completed >= wanted) reached()
  })
  // What runs for the first time is slower: as many messages as in the measurement, at most 5,000.
  const count = { flood: messages, sparse: messages, serial }[values.mode]
  const warmUp = Math.min(5_000, count)
  let worker = start()
  await sendAll(0, warmUp)
  await until(warmUp)
  if (values.mode === 'flood') {
    await worker.close()
    await sendAll(warmUp, warmUp + count)
  }
  const began = process.hrtime.bigint()
  const cpu = process.cpuUsage()
  if (values.mode === 'flood') {
    worker = start()
    await until(warmUp + count)
  } else {
    let next = warmUp
    const sendNext = () => next < warmUp + count && send([next++])
    onCompleted = sendNext
    for (let at = 0; at < (values.mode === 'sparse' ? KEYS : 1); at += 1) sendNext()
    await until(warmUp + count)
  }
  const seconds = Number(process.hrtime.bigint() - began) / 1e9
  const { user, system } = process.cpuUsage(cpu)
  process.stdout.write(JSON.stringify({ per_s: Math.round(count / seconds), cpu_us: Math.round(((user + system) / count) * 10) / 10 }) + '\n', () => process.exit(0))
}

async function freePort() {
  const server = createServer()
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return port
}

async function measure(contestant, mode) {
  const dir = mkdtempSync(join(tmpdir(), 'bench-workers-'))
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith('RESEQ_'))
  const start = (program, args, env = {}) => spawn(program, args.map(String), { stdio: 'ignore', env: { ...Object.fromEntries(others), ...env } })
  const redisPort = await freePort()
  const processes = [start('redis-server', ['--port', redisPort, '--bind', '127.0.0.1', '--dir', dir, '--appendonly', 'yes', '--save', ''])]
  let address = `127.0.0.1:${redisPort}`
  if (contestant === 'reseq') {
    await sleep(500)
    const listen = `127.0.0.1:${await freePort()}`
    processes.push(start(values.reseq, ['serve'], { RESEQ_HTTP_LISTEN: listen, RESEQ_REDIS_URL: `redis://${address}`, RUST_LOG: 'warn' }))
    address = `http://${listen}`
    while (!(await fetch(`${address}/readyz`).then(({ ok }) => ok, () => false))) await sleep(50)
  }
  try {
    const child = spawn(process.execPath, [process.argv[1], ...process.argv.slice(2), '--contestant', contestant, '--mode', mode, '--address', address], { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    for await (const chunk of child.stdout) said += chunk
    return JSON.parse(said)
  } finally {
    for (const one of processes) one.kill('SIGKILL')
    await sleep(100)
    rmSync(dir, { recursive: true, force: true })
  }
}

if (values.contestant) await contest()
else {
  if (!values.reseq) throw new Error('--reseq PROGRAM is missing')
  console.log('| run | mode | Reseq: messages/s | BullMQ: messages/s | ratio | Reseq: CPU µs/message | BullMQ: CPU µs/message |')
  console.log('| --- | --- | ---: | ---: | ---: | ---: | ---: |')
  const modes = ['flood', 'sparse', 'serial']
  const ratios = new Map(modes.map((mode) => [mode, []]))
  for (let run = 1; run <= number('runs', 3); run += 1) {
    for (const mode of modes) {
      const [reseq, bullmq] = [await measure('reseq', mode), await measure('bullmq', mode)]
      const ratio = reseq.per_s / bullmq.per_s
      ratios.get(mode).push(ratio)
      console.log(`| ${run} | ${mode} | ${reseq.per_s} | ${bullmq.per_s} | ${ratio.toFixed(2)} | ${reseq.cpu_us} | ${bullmq.cpu_us} |`)
    }
  }
  for (const [mode, all] of ratios) {
    const sorted = all.sort((a, b) => a - b)
    console.log(`median ratio, ${mode}: ${sorted[Math.floor(sorted.length / 2)].toFixed(2)}`)
  }
}
