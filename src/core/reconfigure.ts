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
    /** Another config is in effect: the settings in which it differs, and those that wait for a restart. */
    'config.applied': Reconfigured
    /** A config was not taken: the one before stays in effect. */
    'config.rejected': { error: GatewayError }
  }
}

/** What putting another config in place reaches for: everything that a config says something of. */
interface ReconfiguredWorld extends InferenceWorld {
  instance: InferenceWorld['instance'] & { configStatus: ConfigStatus }
}

/** How it stands with the config: since when it is in effect, and whether a newer one was refused. */
export interface ConfigStatus {
  applied: Date
  rejected: boolean
}

/** What came of a config, by the names of settings alone: their values may be secrets. */
export interface Reconfigured {
  /** In effect from now on. */
  changed: string[]
  /** As they were at the start, until the next one. */
  needsRestart: string[]
}

/**
 * Puts another config in the place of the one that runs, whole or not at all: the next call is held to it, and those that run keep the
 * endpoints that they have. Throws `invalid_request` naming the setting that is wrong. One at a time.
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

/** Raises the alarm: a config was found that cannot be taken, and the one before stays in effect. The next one that can ends it. */
export function rejectConfig(gateway: ReconfiguredWorld, error: GatewayError): void {
  gateway.instance.configStatus.rejected = true
  gateway.events.publish('config.rejected', { error })
}

// Calls that were not counted until now count from the records.
const freeToday = async (
  { config: before, store, clock }: ReconfiguredWorld,
  { limits }: Config,
): Promise<number | null> =>
  countsFreeDays(limits) && !countsFreeDays(before.limits)
    ? store.generations.freeSince(midnight(clock.now()))
    : null

/** In one step, in which no call can come between. All that may fail comes first. */
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

// A caller's key goes where the config says that its provider is.
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
