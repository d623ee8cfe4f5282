// pg-boss. In W5 jobs are fetched and completed by hand, so that a completion is in its handler's transaction.
import { EFFECT, act, require, versionOf } from './acting.mjs'

const { PgBoss } = require('pg-boss')
const { Pool } = require('pg')

const CONCURRENCY = 4
const AT_ONCE = 100

async function started (dsn) {
  const boss = new PgBoss({ connectionString: dsn, useListenNotify: true })
  boss.on('error', error => console.error(String(error)))
  await boss.start()
  return boss
}

// Its statements on a connection that has a transaction open
const within = client => ({ db: { executeSql: (text, values) => client.query(text, values) } })

async function handle (boss, pool, job, work) {
  const client = await pool.connect()
  try {
    work.begin(job.data.number)
    await client.query('begin')
    await client.query({ ...EFFECT, values: [job.data.number] })
    await boss.complete('bench', job.id, null, within(client))
    await client.query('commit')
  } finally {
    client.release()
  }
}

await act({
  about: {
    version: versionOf('pg-boss'),
    settings: `insert; localConcurrency ${CONCURRENCY}, batchSize ${AT_ONCE}, burstWhenBatchFull, LISTEN; W5: ${CONCURRENCY} loops of fetch, INSERT and complete in a transaction a message`,
    remaining: "select count(*) from pgboss.job where name = 'bench' and state < 'completed'",
    is_atomic: true
  },

  async prepare (dsn) {
    const boss = await started(dsn)
    await boss.createQueue('bench', { notify: true })
    await boss.stop({ graceful: false })
  },

  async produce (order) {
    const boss = await started(order.dsn)
    return {
      send: body => boss.send('bench', body),
      sendBatch: some => boss.insert('bench', some.map(data => ({ data }))),
      close: () => boss.stop({ graceful: false })
    }
  },

  async consume (order, work) {
    const boss = await started(order.dsn)
    let stopping = false
    const pool = new Pool({ connectionString: order.dsn, max: CONCURRENCY })
    const loop = async () => {
      while (!stopping) {
        const jobs = await boss.fetch('bench', { batchSize: AT_ONCE })
        for (const job of jobs) await handle(boss, pool, job, work)
        if (!jobs.length) await new Promise(resolve => setTimeout(resolve, 100))
      }
    }
    if (order.inserts) {
      for (let nth = 0; nth < CONCURRENCY; nth++) loop().catch(error => console.error(error))
    } else {
      const settings = { localConcurrency: CONCURRENCY, batchSize: AT_ONCE, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true }
      await boss.work('bench', settings, async jobs => { for (const job of jobs) work.begin(job.data.number) })
    }
    return () => {
      stopping = true
      return boss.stop({ graceful: false })
    }
  }
})
