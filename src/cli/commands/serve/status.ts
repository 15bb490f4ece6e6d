import { resolve } from 'node:path'
import type { Gateway } from '../../../core/gateway.ts'
import { describeStatus } from '../../../core/inference/status.ts'
import { VERSION } from '../../../core/kernel/version.ts'

import { serveStatus } from '../../status-socket.ts'
import { answerRequest } from './requests.ts'

/** What a server knows of itself from its start. */
interface Served {
  data: string
  url: string
  metrics_url: string | null
  /** The config file; null for the defaults. */
  file: string | null
  /** Hands over to the process that asks. */
  beginHandover(request: Record<string, unknown>): Promise<object>
}

/** What a server tells about itself. */
export type ServerStatus = ReturnType<typeof buildStatus>

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
    answer: request => answerRequest(gateway, request, served.beginHandover),
  })
}

function buildStatus(
  gateway: Gateway,
  { url, metrics_url, file }: Served,
  started: Date,
  reason: string | null,
) {
  const { config, ...status } = describeStatus(gateway)
  return {
    url,
    metrics_url,
    version: VERSION,
    pid: process.pid,
    started_at: started.toISOString(),
    uptime_seconds: Math.floor((gateway.clock.now().getTime() - started.getTime()) / 1000),
    ...status,
    write_log: { bytes: gateway.writeLog.state.bytes, held: gateway.writeLog.state.isHeld },
    config: {
      file: file === null ? null : resolve(file),
      ...config,
      reason: config.rejected ? reason : null,
    },
  }
}
