import type { Events } from '../events.ts'
import type { IdentityWorld } from '../identity/world.ts'
import type { GenerationStore } from './generations.ts'
import type { Recorder } from './recorder.ts'

/** What telemetry needs from the gateway. */
export interface TelemetryWorld extends IdentityWorld {
  instance: { configStatus: { applied: Date; rejected: boolean } }
  store: IdentityWorld['store'] & { generations: GenerationStore }
  traffic: IdentityWorld['traffic'] & { calls: { size: number } }
  /** The containers that run. */
  warm: { size: number }
  recorder: Pick<Recorder, 'healthy'>
  events: Events
}
