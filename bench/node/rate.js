// The rate of a transform, as the service sees it that is called: many processors call one service for a minute, and a
// neighbour measures what that costs it.
//
//   node bench/node/rate.js --reseq target/release/reseq [--processors 20] [--seconds 60] [--rate 10]
//
// Prints the most calls within any 1,000 ms (the rate, plus one that may be late), and the latency of the neighbour's
// messages from send to receipt, first without the limited destination, then with 100 times its rate waiting.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const text = { type: 'string' }
const { values } = parseArgs({ options: { reseq: text, processors: text, seconds: text, rate: text } })
if (!values.reseq) throw new Error('--reseq PROGRAM is missing')
const number = (name, otherwise) => Number(values[name] ?? otherwise)
const [processors, seconds, rate] = [number('processors', 20), number('seconds', 60), number('rate', 10)]
const EVERY_MS = 20

const calls = []
const latencies = []
const sent = new Map()
const service = createServer(async (request, response) => {
  let body = ''
  for await (const chunk of request) body += chunk
  if (request.url === '/tax') calls.push(performance.now())
  if (request.url === '/in' && sent.has(body)) latencies.push(performance.now() - sent.get(body))
  response.end(body)
})
const listen = (server) => new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)))
const freePort = async () => {
  const server = createServer()
  const port = await listen(server)
  await new Promise((done) => server.close(done))
  return port
}

const dir = mkdtempSync(join(tmpdir(), 'bench-rate-'))
const others = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('RESEQ_')))
const config = join(dir, 'reseq.toml')
const processes = []
const start = (program, args, env = {}) => processes.push(spawn(program, args.map(String), { cwd: dir, stdio: 'ignore', env: { ...others, ...env } }))

async function pod(roles) {
  const url = `127.0.0.1:${await freePort()}`
  start(resolve(values.reseq), ['serve', '--config', config, '--roles', roles], { RESEQ_HTTP_LISTEN: url })
  while (!(await fetch(`http://${url}/readyz`).then(({ ok }) => ok, () => false))) await sleep(50)
  return `http://${url}`
}

async function ask(method, url, body, type = 'application/json') {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const answer = await fetch(url, { method, headers: { 'content-type': type }, body: text })
  if (!answer.ok) throw new Error(`${method} ${url}: ${answer.status} ${await answer.text()}`)
}

/** Sends the neighbour's messages for a while. Returns their latencies, shortest first. */
async function neighbour(door, name) {
  latencies.length = 0
  const began = performance.now()
  for (let index = 0; performance.now() - began < seconds * 1000; index += 1) {
    await sleep(Math.max(0, began + index * EVERY_MS - performance.now()))
    sent.set(JSON.stringify(`${name} ${index}`), performance.now())
    void ask('POST', `${door}/v1/messages`, { destinations: ['near'], body: `${name} ${index}` })
  }
  await sleep(1000)
  return [...latencies].sort((a, b) => a - b)
}

const quantile = (sorted, part) => sorted[Math.floor(part * (sorted.length - 1))].toFixed(1)
const row = (name, sorted) => `| ${name} | ${sorted.length} | ${[0.5, 0.9, 0.99].map((part) => quantile(sorted, part)).join(' | ')} |`

try {
  const redisPort = await freePort()
  start('redis-server', ['--port', redisPort, '--bind', '127.0.0.1', '--dir', dir, '--appendonly', 'yes', '--save', ''])
  await sleep(500)
  writeFileSync(config, `[redis]\nurl = "redis://127.0.0.1:${redisPort}"\n[outgoing]\nallow = ["127.0.0.1"]\n`)
  const door = await pod('ingest,sender')
  await Promise.all(Array.from({ length: processors }, () => pod('processor')))
  const own = `http://127.0.0.1:${await listen(service)}`
  const of = (name, more) => ({ kind: 'http', url: `${own}/${name}`, ...more })
  await ask('PUT', `${door}/v1/destinations/near`, { ordering: 'none', url: `${own}/in`, transform: of('near') })
  const tax = { ordering: 'none', delivery: { kind: 'none' }, transform: of('tax', { rate_per_second_max: rate }) }
  await ask('PUT', `${door}/v1/destinations/tax`, tax)
  const without = await neighbour(door, 'without')
  const waiting = Math.max(100 * rate, 2 * rate * seconds)
  for (let at = 0; at < waiting; at += 100) {
    const lines = Array.from({ length: 100 }, (_, index) => JSON.stringify({ destinations: ['tax'], body: at + index }))
    await ask('POST', `${door}/v1/messages`, lines.join('\n'), 'application/x-ndjson')
  }
  const beside = await neighbour(door, 'beside')
  let most = 0
  for (let from = 0, to = 0; to < calls.length; to += 1) {
    while (calls[to] - calls[from] >= 1000) from += 1
    most = Math.max(most, to - from + 1)
  }
  const span = (calls.at(-1) - calls[0]) / 1000
  console.log(`${processors} processors, ${rate} a second: ${calls.length} calls in ${span.toFixed(1)} s (${((calls.length - 1) / span).toFixed(2)} a second); at most ${most} in any 1,000 ms\n`)
  console.log('| neighbour | messages | p50 ms | p90 ms | p99 ms |\n| --- | ---: | ---: | ---: | ---: |')
  console.log(`${row('alone', without)}\n${row('beside it', beside)}`)
  process.exitCode = most <= rate + 1 ? 0 : 1
} finally {
  for (const one of processes) one.kill('SIGKILL')
  service.close()
  await sleep(200)
  rmSync(dir, { recursive: true, force: true })
}
process.exit()
