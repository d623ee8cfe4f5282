// graphile-worker, with the local queue and the batched completion that its page on performance recommends.
import { EFFECT, act, require, versionOf } from './acting.mjs'

const { Logger, makeWorkerUtils, run, runMigrations } = require('graphile-worker')
const { Pool } = require('pg')

const CONCURRENCY = 24
const AT_ONCE = 500
const CONNECTIONS = 10
const logger = new Logger(() => (level, message) => { if (level === 'error') console.error(message) })

await act({
  about: {
    version: versionOf('graphile-worker'),
    settings: `addJobs; ${CONCURRENCY} handlers, a local queue of ${AT_ONCE}, completions in batches; W5: the handler commits on a pool of ${CONNECTIONS}`,
    remaining: 'select count(*) from graphile_worker._private_jobs',
    is_atomic: false
  },

  prepare: dsn => runMigrations({ connectionString: dsn, logger }),

  async produce (order) {
    const utils = await makeWorkerUtils({ connectionString: order.dsn, logger })
    return {
      send: body => utils.addJob('bench', body),
      sendBatch: some => utils.addJobs(some.map(payload => ({ identifier: 'bench', payload }))),
      close: () => utils.release()
    }
  },

  async consume (order, work) {
    const pool = order.inserts && new Pool({ connectionString: order.dsn, max: CONNECTIONS })
    const bench = async body => {
      work.begin(body.number)
      if (pool) await pool.query({ ...EFFECT, values: [body.number] })
    }
    const runner = await run({
      taskList: { bench },
      noHandleSignals: true,
      preset: {
        worker: {
          connectionString: order.dsn,
          concurrentJobs: CONCURRENCY,
          maxPoolSize: 10,
          localQueue: { size: AT_ONCE },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          logger
        }
      }
    })
    return () => runner.stop()
  }
})
