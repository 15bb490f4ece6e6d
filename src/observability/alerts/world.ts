import type { Mirror } from '../../base/mirror.ts'
import type { PolicyWorld } from '../../limits/policy-world.ts'
import type { DestinationWorld } from '../destinations/world.ts'
import type { RollupStore } from '../rollups.ts'
import type { Alert, AlertStore } from './store.ts'

declare module '../../base/events.ts' {
  interface EventMap {
    /** An alert was added, changed or removed, perhaps by another process. */
    'alerts.changed': object
    /** A notice was given up. */
    'alert.undelivered': { alert_id: string; name: string; error: string }
  }
}

/** What alerts need from the gateway. */
export interface AlertWorld extends PolicyWorld {
  egress: DestinationWorld['egress']
  store: PolicyWorld['store'] & { alerts: AlertStore; rollups: RollupStore }
  memory: PolicyWorld['memory'] & {
    alerts: Mirror<Alert>
    destinations: DestinationWorld['memory']['destinations']
  }
  secrets: PolicyWorld['secrets'] & Pick<DestinationWorld['secrets'], 'destinationSeal'>
  jobs?: DestinationWorld['jobs']
  /** What becomes of what destinations are told. */
  deliveries: { list(): { destination_id: string; waiting: number }[] }
}
