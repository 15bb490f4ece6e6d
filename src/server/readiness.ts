import type { Gateway } from '../app/gateway.ts'
import type { Connection } from './connections.ts'

/** Finds why calls cannot be served now, in a few words. Undefined if they can. */
export function findUnreadiness(
  { traffic, recorder }: Gateway,
  connection: Connection | undefined,
): string | undefined {
  if (traffic.calls.draining) return 'draining'
  if (!recorder.healthy) return 'the store takes no records'
  return connection?.lacksDescriptors ? 'too many connections' : undefined
}

// The previous config stays in use, so the process is alive. But monitoring must see the rejection.
export const renderHealth = ({
  instance: {
    configStatus: { rejected },
  },
}: Gateway) => Response.json({ status: 'ok', ...(rejected ? { config: 'rejected' } : {}) })

/** What it does without: it is as ready as ever. */
const describeHot = ({ hot }: Gateway) =>
  !hot || hot.state.isUp ? {} : { degraded: 'valkey', valkey: hot.state.words }

export function renderReadiness(gateway: Gateway, connection: Connection | undefined): Response {
  const reason = findUnreadiness(gateway, connection)
  if (reason) return Response.json({ status: reason }, { status: 503 })
  // A saturated gateway serves as much as it can: to take it out of rotation would lose that.
  const overload = gateway.traffic.admission.findSaturation()
  return Response.json({
    status: 'ready',
    ...(overload ? { overloaded: overload } : {}),
    ...(gateway.recorder.isFailing ? { degraded: 'store' } : describeHot(gateway)),
  })
}
