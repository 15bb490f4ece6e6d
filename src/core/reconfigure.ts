import { type OpenedKey, opened } from './catalog/byok/opened.ts'
import { type Catalog, openCatalog } from './catalog/models.ts'
import { applicable, changedSettings } from './config/changes.ts'
import type { Config } from './config.ts'
import type { GatewayError } from './errors.ts'
import type { InferenceWorld } from './inference/world.ts'
import { midnight } from './kernel/clock.ts'
import { countsFreeDays } from './policy/rate-limits.ts'
import { protocolNames } from './protocols/registry.ts'

declare module './events.ts' {
  interface EventMap {
    /** A new config is in effect, with the settings that changed and those that need a restart. */
    'config.applied': Reconfigured
    /** A config was rejected: the previous one stays in effect. */
    'config.rejected': { error: GatewayError }
  }
}

/** What a change of the config may affect. */
interface ReconfiguredWorld extends InferenceWorld {
  instance: InferenceWorld['instance'] & { configStatus: ConfigStatus }
}

/** Since when the config is in effect, and whether a newer one was rejected. */
export interface ConfigStatus {
  applied: Date
  rejected: boolean
}

/** The effect of a config, by names of settings only: their values may be secrets. */
export interface Reconfigured {
  /** Settings that are in effect from now on. */
  changed: string[]
  /** Settings that keep their value until the gateway restarts. */
  needsRestart: string[]
}

/**
 * Replaces the running config completely or not at all. The next call uses it; running calls keep
 * their endpoints. Throws `invalid_request` naming the wrong setting. Must not run concurrently.
 */
export async function reconfigure(
  gateway: ReconfiguredWorld,
  wanted: Config,
): Promise<Reconfigured> {
  const { config, needsRestart } = applicable(gateway.config, wanted)
  const changed = changedSettings(gateway.config, config)
  if (changed.length > 0) {
    const catalog = openCatalog(config, protocolNames, gateway.clock.now(), gateway)
    const freeSoFar = await freeToday(gateway, config)
    putInPlace(gateway, config, catalog, freeSoFar)
  }
  gateway.instance.configStatus = { applied: gateway.clock.now(), rejected: false }
  gateway.events.publish('config.applied', { changed, needsRestart })
  return { changed, needsRestart }
}

/**
 * Reports that a config was rejected and the previous one stays in effect. The next valid config
 * clears this state.
 */
export function rejectConfig(gateway: ReconfiguredWorld, error: GatewayError): void {
  gateway.instance.configStatus.rejected = true
  gateway.events.publish('config.rejected', { error })
}

// If free calls were not counted before, the count starts from the records.
const freeToday = async (
  { config: before, store, clock }: ReconfiguredWorld,
  { limits }: Config,
): Promise<number | null> =>
  countsFreeDays(limits) && !countsFreeDays(before.limits)
    ? store.generations.freeSince(midnight(clock.now()))
    : null

/** Applies the config synchronously, so that no call runs in between. What may fail comes first. */
function putInPlace(
  gateway: ReconfiguredWorld,
  config: Config,
  catalog: Catalog,
  freeSoFar: number | null,
): void {
  const byok = reopened(gateway, { ...gateway, config, catalog })
  gateway.config = config
  gateway.catalog = catalog
  gateway.memory.byok.replaceAll(byok)
  gateway.traffic.rateLimits.reconfigure(config, freeSoFar)
  gateway.traffic.health.reconfigure(config.routing)
  gateway.memory.policies.clear()
}

// A caller's key is sent to the address that the config has for its provider.
function reopened(
  { memory: { byok }, config }: ReconfiguredWorld,
  next: ReconfiguredWorld,
): OpenedKey[] {
  const isSame = Bun.deepEquals(config.providers, next.config.providers)
  return Array.from(byok.values(), one =>
    isSame
      ? opened(next, one.key, one)
      : { ...opened(next, one.key), credentials: one.credentials },
  )
}
