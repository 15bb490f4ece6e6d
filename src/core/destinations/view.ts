import { defineAudit, identifyById } from '../identity/audit/entry.ts'
import type { DestinationConfig, OpenedDestination } from './opened.ts'
import { maskSecret, replaceSecrets } from './secrets.ts'
import type { Destination } from './store.ts'
import type { DestinationWorld } from './world.ts'

/** Shows a destination as the wire does (wire reference G.1), with its secrets masked. */
export const showDestination = ({ destination, kind, config }: OpenedDestination) => {
  const { sealed: _, paused_at: __, ...shown } = destination
  return {
    ...shown,
    config: kind && config ? replaceSecrets(kind, config, maskSecret) : {},
  }
}

/** A destination as the audit trail sees it: with its config. */
type AuditedDestination = Destination & { opened: OpenedDestination }

const auditRecord = defineAudit<AuditedDestination, DestinationWorld>('destinations', {
  identify: identifyById,
  show: ({ opened: { destination, kind, config } }, { secrets }) => {
    const { sealed: _, ...shown } = destination
    return {
      ...shown,
      config: kind && config ? replaceSecrets(kind, config, secrets.fingerprint) : null,
    }
  },
})

/** Makes the audit entry of a change of a destination. Of secrets it has fingerprints only. */
export const auditDestination = (
  world: DestinationWorld,
  actor: Parameters<typeof auditRecord>[1],
  before: OpenedDestination | null,
  after: OpenedDestination | null,
) => auditRecord(world, actor, addOpened(before), addOpened(after))

const addOpened = (opened: OpenedDestination | null): AuditedDestination | null =>
  opened && { ...opened.destination, opened }

/** Seals a config for its destination. */
export function sealConfig(world: DestinationWorld, id: string, config: DestinationConfig): string {
  const nonce = Buffer.from(world.ids.secret(), 'hex').subarray(-12)
  return world.secrets.destinationSeal().seal(JSON.stringify(config), id, nonce)
}
