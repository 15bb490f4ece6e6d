import { resolve } from 'node:path'
import type { Gateway } from '../../../app/gateway.ts'
import { explainGeneration } from '../../../app/past-request.ts'
import { describeCatalog, reloadModels } from '../../../app/reconfigure.ts'
import { GatewayError } from '../../../base/errors.ts'
import { VERSION } from '../../../base/version.ts'
import { describeStatus, restEndpoint, wakeEndpoint } from '../../../engine/status.ts'
import { getOperator } from '../../../resources/actor.ts'
import { createBuiltInReader, locateCatalog } from '../../../resources/models/built-in.ts'
import { type Lines, serveStatus } from '../../status-socket.ts'
import type { Worker } from './worker.ts'

/** What a server knows of itself from its start. */
interface Served {
  data: string
  /** The directory of installed models. */
  home: string
  url: string
  metrics_url: string | null
  /** The config file; null for the defaults. */
  file: string | null
  /** Where its data is. */
  store: 'directory' | 'postgres'
  /** Hands over to the process that asks. */
  beginHandover(request: Record<string, unknown>): Promise<object>
  /** The place among several servers of one port. */
  worker: Worker | null
}

/** What a server tells about itself. */
export type ServerStatus = ReturnType<typeof buildStatus> & {
  /** The servers of one port, where there are several. */
  workers?: { worker: number; pid: number; running_calls: number; draining: boolean }[]
}

/**
 * Tells the state of a server to `gateway status`, and returns the function that stops this. Throws
 * what the system throws where the data directory can have no socket.
 */
export function tellStatus(gateway: Gateway, served: Served): () => void {
  const started = gateway.clock.now()
  let reason: string | null = null
  gateway.events.on('config.rejected', ({ error }) => {
    reason = error.message.replaceAll('\n', '; ')
  })
  return serveStatus(served.data, {
    describe: () => JSON.stringify(buildStatus(gateway, served, started, reason)),
    answer: request => answerRequest(gateway, request, served),
  })
}

function buildStatus(
  gateway: Gateway,
  { url, metrics_url, file, store }: Served,
  started: Date,
  reason: string | null,
) {
  const { config, ...status } = describeStatus(gateway)
  return {
    url,
    metrics_url,
    version: VERSION,
    store,
    pid: process.pid,
    started_at: started.toISOString(),
    uptime_seconds: Math.floor((gateway.clock.now().getTime() - started.getTime()) / 1000),
    ...status,
    catalog: describeCatalog(gateway),
    write_log: { bytes: gateway.writeLog.state.bytes, held: gateway.writeLog.state.isHeld },
    config: {
      file: file === null ? null : resolve(file),
      ...config,
      reason: config.rejected ? reason : null,
    },
  }
}

/** What a reader of the socket may ask for. Who may read the data directory is the operator. */
const REQUESTS: Record<string, (gateway: Gateway, request: Record<string, unknown>) => Lines> = {
  watch: (gateway, { past }) => gateway.activity.listen(getOperator(gateway), Number(past) || 0),
  explain: (gateway, { id }) =>
    answerOnce(() => explainGeneration(gateway, getOperator(gateway), String(id))),
  rest: (gateway, { endpoint, seconds }) =>
    answerOnce(() =>
      restEndpoint(gateway, getOperator(gateway), String(endpoint), Number(seconds)),
    ),
  wake: (gateway, { endpoint }) =>
    answerOnce(() => wakeEndpoint(gateway, getOperator(gateway), String(endpoint))),
}

/** Answers a request of the socket; undefined for one that there is none of. */
function answerRequest(
  gateway: Gateway,
  request: Record<string, unknown>,
  { beginHandover, home, worker }: Served,
): Lines | undefined {
  if (request.do === 'takeover') return answerOnce(() => beginHandover(request))
  if (request.do === 'metrics' && worker) return answerOnce(async () => worker.readMetrics())
  if (request.do === 'reload_models')
    return answerOnce(async () =>
      reloadModels(gateway, createBuiltInReader(locateCatalog(home, gateway.config))),
    )
  return answerKnown(gateway, request)
}

const answerKnown = (gateway: Gateway, request: Record<string, unknown>): Lines | undefined =>
  typeof request.do === 'string' && Object.hasOwn(REQUESTS, request.do)
    ? REQUESTS[request.do]?.(gateway, request)
    : undefined

async function* answerOnce(run: () => Promise<object>): AsyncGenerator<string[]> {
  try {
    yield [JSON.stringify(await run())]
  } catch (thrown) {
    const { type, message } = GatewayError.from(thrown)
    yield [JSON.stringify({ error: { type, message } })]
  }
}
