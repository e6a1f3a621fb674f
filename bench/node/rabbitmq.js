// RabbitMQ through amqplib: durable classic queues, persistent messages, publisher confirms.
// Strict order: a queue a key with a single active consumer, prefetch 10, one message after the other.
import { connect } from 'amqplib'
import { handle, options, queueOf, run } from './common.js'

const PREFETCH_STRICT = 10
const address = `amqp://guest:guest@${options.address}`
const queueArguments = options.strict ? { 'x-single-active-consumer': true } : {}

async function consume() {
  const channel = await (await connect(address)).createChannel()
  await channel.prefetch(options.strict ? PREFETCH_STRICT : options.concurrency)
  for (let key = 0; key < options.keys; key += 1) {
    await channel.assertQueue(queueOf(key), { durable: true, arguments: queueArguments })
    let before = Promise.resolve()
    await channel.consume(queueOf(key), (delivery) => {
      const work = () => handle(JSON.parse(delivery.content)).then(() => channel.ack(delivery))
      before = options.strict ? before.then(work) : work()
      before.catch(fail)
    })
  }
}

async function produce() {
  const channel = await (await connect(address)).createConfirmChannel()
  // It holds when the last of the bodies is confirmed.
  const send = (key, bodies) =>
    new Promise((resolve, reject) => {
      let unconfirmed = bodies.length
      for (const body of bodies) {
        const content = Buffer.from(JSON.stringify(body))
        channel.sendToQueue(queueOf(key), content, { persistent: true }, (error) => {
          unconfirmed -= 1
          if (error) reject(error)
          else if (unconfirmed === 0) resolve()
        })
      }
    })
  return { send, window: 1000 }
}

function fail(error) {
  console.error(error)
  process.exit(1)
}

await run('RabbitMQ', { consume, produce })
