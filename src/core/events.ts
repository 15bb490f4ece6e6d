import type { ByokKey } from './catalog/byok.ts'
import type { Endpoint } from './catalog/models.ts'
import type { GatewayError } from './errors.ts'
import type { Reconfigured } from './reconfigure.ts'
import type { Finding, Generation } from './telemetry/generations.ts'

/** What the gateway tells about itself. */
export interface EventMap {
  'generation.finished': Generation
  'attempt.failed': { endpoint: Endpoint; error: GatewayError }
  /** An answer has called tools as they were offered, or not. */
  'tools.judged': { endpoint: Endpoint; isSound: boolean }
  /** A second endpoint is asked beside a slow one. */
  'hedge.started': { endpoint: Endpoint }
  /** And it has answered. */
  'hedge.won': { endpoint: Endpoint }
  /** A call was answered whose cost nobody knows: the endpoint has no price. */
  'price.missing': { endpoint: Endpoint }
  /** A caller's provider key was sealed with another secret: it is not used. */
  'byok.unreadable': Pick<ByokKey, 'id' | 'provider'>
  /** A content filter found something in a finished call. */
  'filter.matched': { generation_id: string } & Finding
  'store.failing': { error: unknown }
  /** Another config is in effect: the settings in which it differs, and those that wait for a restart. */
  'config.applied': Reconfigured
  /** A config was not taken: the one before stays in effect. */
  'config.rejected': { error: GatewayError }
}

/** Tells whoever listens. `publish` never throws and never waits: a listener's failure is the listener's own. */
export interface Events {
  on<Name extends keyof EventMap>(name: Name, listener: (event: EventMap[Name]) => void): void
  publish<Name extends keyof EventMap>(name: Name, event: EventMap[Name]): void
}

export function openEvents(): Events {
  const listeners = new Map<string, ((event: never) => void)[]>()
  return {
    on: (name, listener) => void listeners.set(name, [...(listeners.get(name) ?? []), listener]),
    publish(name, event) {
      for (const listener of listeners.get(name) ?? []) {
        try {
          listener(event as never)
        } catch {
          // A listener may not harm the call it hears of.
        }
      }
    },
  }
}
