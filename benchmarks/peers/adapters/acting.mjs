// What acting.py is for Python: one act of one adapter, asked for by an order as JSON. The last line printed is the result.
import fs from 'node:fs'
import { createRequire } from 'node:module'

const modules = process.env.PEERS_NODE_MODULES
export const require = createRequire(`${modules}/`)
export const versionOf = name => JSON.parse(fs.readFileSync(`${modules}/${name}/package.json`)).version
export const EFFECT = { name: 'effect', text: "insert into effect (number, note) values ($1, 'x')" }

const AT_ONCE = 1000
const BODY_BYTES = 200
const HANDFUL = 100
const PATIENCE = 8000

// Python's time.monotonic(), in seconds
const monotonic = () => Number(process.hrtime.bigint()) / 1e9
const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

// 200 bytes as Python's json.dumps writes them, with a space after each colon and comma
function body (number) {
  return { number, note: 'x'.repeat(BODY_BYTES - `{"number": ${number}, "note": ""}`.length) }
}

function bodies (start, count) {
  return Array.from({ length: count }, (_, nth) => body(start + nth))
}

class Counter {
  constructor (path) {
    this.file = fs.openSync(path, 'r+')
    this.bytes = Buffer.alloc(8)
  }

  get value () {
    fs.readSync(this.file, this.bytes, 0, 8, 0)
    return Number(this.bytes.readBigInt64LE())
  }

  set value (value) {
    this.bytes.writeBigInt64LE(BigInt(value))
    fs.writeSync(this.file, this.bytes, 0, 8, 0)
  }
}

class Work {
  constructor (order) {
    this.counter = new Counter(order.counter)
    this.path = order.times
    this.times = []
    this.begun = 0
  }

  begin (number) {
    if (this.path) this.times.push([number, monotonic()])
    this.counter.value = ++this.begun
  }

  end () {
    if (this.path) fs.writeFileSync(this.path, JSON.stringify(this.times))
  }
}

const sending = {
  async fill (producer, order) {
    for (let sent = 0; sent < order.count; sent += AT_ONCE) {
      await producer.sendBatch(bodies(sent, Math.min(AT_ONCE, order.count - sent)))
    }
    return order.count
  },

  async send_batches (producer, order) {
    const some = bodies(0, AT_ONCE)
    const until = monotonic() + order.seconds
    let sent = 0
    for (; monotonic() < until; sent += AT_ONCE) await producer.sendBatch(some)
    return sent
  },

  async send_singly (producer, order) {
    const until = monotonic() + order.seconds
    let sent = 0
    for (; monotonic() < until; sent++) await producer.send(body(sent))
    return sent
  },

  async send_steadily (producer, order) {
    const began = monotonic()
    const sent = []
    for (let number = 0; number < Math.floor(order.rate * order.seconds); number++) {
      const early = began + number / order.rate - monotonic()
      if (early > 0) await sleep(early * 1000)
      await producer.send(body(number))
      sent.push([number, monotonic()])
    }
    fs.writeFileSync(order.times, JSON.stringify(sent))
    return sent.length
  },

  async keep_full (producer, order) {
    const handled = new Counter(order.counter)
    const until = monotonic() + order.seconds
    let sent = 0
    while (monotonic() < until) {
      if (sent + HANDFUL - handled.value > order.window) {
        await sleep(2)
        continue
      }
      await producer.sendBatch(bodies(sent, HANDFUL))
      sent += HANDFUL
    }
    return sent
  }
}

async function consume (adapter, order) {
  const work = new Work(order)
  const leave = () => { work.end(); process.exit(0) }
  const stop = await adapter.consume(order, work)
  process.on('SIGTERM', () => {
    setTimeout(leave, PATIENCE)
    Promise.resolve(stop()).finally(leave)
  })
  await new Promise(() => setInterval(() => {}, 1e6))
}

async function send (adapter, order) {
  const producer = await adapter.produce(order)
  const began = monotonic()
  const count = await sending[order.act](producer, order)
  const seconds = monotonic() - began
  await producer.close()
  return { count, seconds }
}

export async function act (adapter) {
  const order = JSON.parse(process.argv[2])
  let result = {}
  if (order.act === 'about') result = adapter.about
  else if (order.act === 'prepare') await adapter.prepare(order.dsn)
  else if (order.act === 'consume') await consume(adapter, order)
  else result = await send(adapter, order)
  console.log(JSON.stringify(result))
  process.exit(0)
}
