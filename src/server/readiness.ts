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
