// What the peers in Node share: the arguments, the work, the count of what is done, and the two
// processes of a run. The program itself consumes; it forks itself to produce.
import { fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const BODY_BYTES = 200
const LINUX_TICKS_A_SECOND = 100

const text = { type: 'string' }
const { values } = parseArgs({
  options: {
    case: text,
    messages: text,
    keys: text,
    'work-min-us': text,
    'work-max-us': text,
    rate: text,
    seed: text,
    order: text,
    concurrency: text,
    address: text,
    'store-pid': text,
  },
})

const number = (name) => {
  const value = Number(values[name])
  if (!Number.isInteger(value)) throw new Error(`--${name} must be a whole number`)
  return value
}

export const options = {
  case: values.case,
  messages: number('messages'),
  keys: number('keys'),
  workMin: number('work-min-us'),
  workMax: number('work-max-us'),
  rate: number('rate'),
  seed: number('seed'),
  strict: values.order === 'strict',
  concurrency: number('concurrency'),
  address: values.address,
  storePid: number('store-pid'),
}

// The queue of a key. Every run has a fresh broker, so the name need not be unique.
export const queueOf = (key) => `bench-${key}`

// The clock that all processes of a machine share, in µs.
const now = () => Number(process.hrtime.bigint() / 1000n)

// The time that message number `index` takes. The programs in Rust and Java draw the same.
function workOf(index) {
  let hash = (options.seed ^ Math.imul(index + 1, 0x9e3779b1)) >>> 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b) >>> 0
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35) >>> 0
  hash = (hash ^ (hash >>> 16)) >>> 0
  return options.workMin + (hash % (options.workMax - options.workMin + 1))
}

// Does the work of a message, which is to wait, and counts it as done.
export async function handle(message) {
  if (options.workMax > 0) await sleep(workOf(message.index) / 1000)
  done(message)
}

const tally = {
  count: 0,
  outOfOrder: 0,
  highest: new Int32Array(options.keys).fill(-1),
  latencies: new Float64Array(options.messages),
}
let allDone
const finished = new Promise((resolve) => (allDone = resolve))

function done(message) {
  const key = message.index % options.keys
  if (message.index < tally.highest[key]) tally.outOfOrder += 1
  else tally.highest[key] = message.index
  tally.latencies[tally.count] = now() - message.sent
  tally.count += 1
  if (tally.count === options.messages) allDone()
}

// A message of 200 bytes as JSON. `sent` is when it was to be sent, so that a producer that falls
// behind its rate does not hide the wait.
function message(index, sent) {
  const body = { index, sent, pad: '' }
  body.pad = 'x'.repeat(Math.max(0, BODY_BYTES - JSON.stringify(body).length))
  return body
}

// Sends all messages as fast as they are accepted, `window` messages at a time under way.
async function saturate(send, window) {
  const { messages, keys } = options
  const batch = keys === 1 ? window / 10 : 10
  const perKey = Math.ceil(messages / keys)
  const batches = keys * Math.ceil(perKey / batch)
  let next = 0
  const lane = async () => {
    while (next < batches) {
      const key = next % keys
      const first = Math.floor(next / keys) * batch
      next += 1
      const bodies = []
      for (let turn = first; turn < first + batch; turn += 1) {
        const index = turn * keys + key
        if (index < messages) bodies.push(message(index, now()))
      }
      if (bodies.length > 0) await send(key, bodies)
    }
  }
  await Promise.all(Array.from({ length: Math.ceil(window / batch) }, lane))
}

// Sends each message when it is due, whether or not those before it were accepted.
async function pace(send) {
  const { messages, keys, rate } = options
  const start = now()
  const underWay = []
  for (let index = 0; index < messages; ) {
    const due = Math.min(messages, Math.floor(((now() - start) * rate) / 1e6) + 1)
    const byKey = new Map()
    for (; index < due; index += 1) {
      const key = index % keys
      if (!byKey.has(key)) byKey.set(key, [])
      byKey.get(key).push(message(index, start + Math.floor((index * 1e6) / rate)))
    }
    for (const [key, bodies] of byKey) underWay.push(send(key, bodies))
    await sleep(1)
  }
  await Promise.all(underWay)
}

function storeCpu() {
  const stat = readFileSync(`/proc/${options.storePid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1e6) / LINUX_TICKS_A_SECOND
}

const ownCpu = (since) => {
  const { user, system } = process.cpuUsage(since)
  return user + system
}

async function beProducer(produce) {
  // It never outlives the program that started it.
  process.once('disconnect', () => process.exit(1))
  const { send, window } = await produce()
  const go = new Promise((resolve) => process.once('message', resolve))
  process.send('ready')
  await go
  const before = process.cpuUsage()
  if (options.rate > 0) await pace(send)
  else await saturate(send, window)
  process.send({ cpu: ownCpu(before) })
}

// The next thing that the producer says; an error when it ends first.
const said = (producer) =>
  new Promise((resolve, reject) => {
    producer.once('message', resolve)
    producer.once('exit', (code) => reject(new Error(`the producer ended with ${code}`)))
  })

const quantile = (sorted, q) => Math.round(sorted[Math.ceil(q * sorted.length) - 1])

async function beConsumer(peer, consume) {
  await consume()
  const producer = fork(process.argv[1], process.argv.slice(2), { env: { ...process.env, ROLE: 'producer' } })
  await said(producer)
  const cpu = { store: storeCpu(), own: process.cpuUsage() }
  const start = now()
  producer.send('go')
  const produced = said(producer)
  await Promise.all([finished, produced])
  const end = now()
  const store = storeCpu() - cpu.store
  const client = ownCpu(cpu.own) + (await produced).cpu
  producer.kill()
  const sorted = tally.latencies.sort()
  const round = (value) => Math.round(value * 10) / 10
  const result = {
    peer,
    case: options.case,
    messages: options.messages,
    messages_per_s: Math.round((options.messages * 1e6) / (end - start)),
    in_order: tally.outOfOrder === 0,
    out_of_order: tally.outOfOrder,
    latency_us: { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) },
    cpu_us_per_message: { store: round(store / options.messages), client: round(client / options.messages) },
  }
  process.stdout.write(JSON.stringify(result) + '\n', () => process.exit(0))
}

// `consume` starts consumers that call `handle`. `produce` connects and gives back `send(key, bodies)`,
// whose promise holds when the broker has them, and how many messages may be under way at a time.
export async function run(peer, { consume, produce }) {
  if (process.env.ROLE === 'producer') await beProducer(produce)
  else await beConsumer(peer, consume)
}
