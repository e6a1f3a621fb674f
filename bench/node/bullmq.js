// BullMQ. Strict order: a queue a key, each with a worker of concurrency 1.
import { Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { handle, options, queueOf, run } from './common.js'

const connection = { path: options.address, maxRetriesPerRequest: null }
const keys = Array.from({ length: options.keys }, (_, key) => key)

async function consume() {
  const concurrency = options.strict ? 1 : options.concurrency
  const workers = keys.map((key) => {
    const worker = new Worker(queueOf(key), (job) => handle(job.data), { connection, concurrency })
    worker.on('error', fail)
    return worker
  })
  await Promise.all(workers.map((worker) => worker.waitUntilReady()))
}

async function produce() {
  const shared = new Redis(connection)
  const defaultJobOptions = { removeOnComplete: true }
  const queues = keys.map((key) => new Queue(queueOf(key), { connection: shared, defaultJobOptions }))
  await Promise.all(queues.map((queue) => queue.waitUntilReady()))
  const send = (key, bodies) => queues[key].addBulk(bodies.map((data) => ({ name: 'job', data })))
  return { send, window: 800 }
}

function fail(error) {
  console.error(error)
  process.exit(1)
}

await run('BullMQ', { consume, produce })
