import { toMidnight } from '../base/clock.ts'
import { type GatewayError, invalid } from '../base/errors.ts'
import type { Config } from '../config.ts'
import type { PluginWorld } from '../extensions/plugin.ts'
import { listPluginIssues } from '../extensions/plugin-defaults.ts'
import { hasDailyFreeLimit } from '../limits/counters.ts'
import { probeSandbox } from '../network/sandboxes/registry.ts'
import type { DecryptedKey } from '../resources/byok/decrypted-keys.ts'
import { decryptKey } from '../resources/byok.ts'
import type { BuiltInModels } from '../resources/models/built-in.ts'
import type { Catalog } from '../resources/models/catalog.ts'
import { openCatalog } from '../resources/models.ts'
import { protocolNames } from '../translation/protocols/registry.ts'

declare module '../base/events.ts' {
  interface EventMap {
    /** A new config is in effect, with the settings that changed and those that need a restart. */
    'config.applied': ReconfigureResult
    /** A config was rejected: the previous one stays in effect. */
    'config.rejected': { error: GatewayError }
  }
}

/** What a change of the config may affect. */
interface ReconfigureWorld extends PluginWorld {
  instance: PluginWorld['instance'] & { configStatus: ConfigStatus }
}

/** Since when the config is in effect, and whether a newer one was rejected. */
export interface ConfigStatus {
  applied: Date
  rejected: boolean
}

/** The effect of a config, by names of settings only: their values may be secrets. */
interface ReconfigureResult {
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
  world: ReconfigureWorld,
  newConfig: Config,
): Promise<ReconfigureResult> {
  const { config, needsRestart } = toApplicableConfig(world.config, newConfig)
  const changed = listChangedSettings(world.config, config)
  if (changed.length > 0) {
    const catalog = openChanged(world, config)
    const { catalog: before } = world
    const freeSoFar = await countFreeToday(world, config)
    await probeSandbox({ ...world, config })
    const isLast = world.catalog === before
    applyConfig(world, config, isLast ? catalog : openChanged(world, config), freeSoFar)
    if (changed.some(name => name.startsWith('telemetry.otlp')))
      world.events.publish('destinations.changed', {})
  }
  world.instance.configStatus = { applied: world.clock.now(), rejected: false }
  world.events.publish('config.applied', { changed, needsRestart })
  return { changed, needsRestart }
}

const openChanged = (
  world: ReconfigureWorld,
  config: Config,
  getBuiltIn?: () => BuiltInModels,
): Catalog =>
  openCatalog(config, protocolNames, world.clock.now(), {
    before: world,
    issues: listPluginIssues(config, world.plugins),
    ...(getBuiltIn ? { getBuiltIn } : {}),
  })

/**
 * Replaces the known models by those that are installed now, as a changed config would. Throws
 * `invalid_request` where they cannot be used, and changes nothing.
 */
export function reloadModels(
  world: ReconfigureWorld,
  getBuiltIn: () => BuiltInModels,
): CatalogState {
  const { problem } = getBuiltIn()
  if (problem !== null) throw invalid(problem)
  applyConfig(world, world.config, openChanged(world, world.config, getBuiltIn), null)
  return describeCatalog(world)
}

/** Which known models a gateway has. */
export interface CatalogState {
  generated: string
  is_installed: boolean
  /** Why the installed ones are not used; null if they are, or there are none. */
  problem: string | null
}

/** Describes which known models a gateway has. */
export function describeCatalog({ catalog }: { catalog: Catalog }): CatalogState {
  const { generated, isInstalled, problem } = catalog.getBuiltIn()
  return { generated, is_installed: isInstalled, problem }
}

/**
 * Reports that a config was rejected and the previous one stays in effect. The next valid config
 * clears this state.
 */
export function rejectConfig(world: ReconfigureWorld, error: GatewayError): void {
  world.instance.configStatus.rejected = true
  world.events.publish('config.rejected', { error })
}

// If free calls were not counted before, the count starts from the records.
const countFreeToday = async (
  { config: before, store, traffic }: ReconfigureWorld,
  { limits }: Config,
): Promise<number | null> =>
  hasDailyFreeLimit(limits) && !hasDailyFreeLimit(before.limits)
    ? store.generations.countFreeCalls(toMidnight(traffic.counters.clock.now()))
    : null

/** Applies the config synchronously, so that no call runs in between. What may fail comes first. */
function applyConfig(
  world: ReconfigureWorld,
  config: Config,
  catalog: Catalog,
  freeSoFar: number | null,
): void {
  const byok = reopenKeys(world, { ...world, config, catalog })
  world.config = config
  world.catalog = catalog
  world.memory.byok.replaceAll(byok)
  world.traffic.counters.reconfigure(config, freeSoFar)
  world.traffic.health.reconfigure(config.routing)
  world.memory.policies.clear()
  world.warm.pool.refill(world)
  for (const program of world.egress.programs.values())
    if (!program.isWanted(config)) void program.end()
}

// A caller's key is sent to the address that the config has for its provider.
function reopenKeys(
  { memory: { byok }, config }: ReconfigureWorld,
  next: ReconfigureWorld,
): DecryptedKey[] {
  const isSame = Bun.deepEquals(config.providers, next.config.providers)
  return Array.from(byok.values(), entry =>
    isSame
      ? decryptKey(next, entry.key, entry)
      : { ...decryptKey(next, entry.key), credentialVersion: entry.credentialVersion },
  )
}

/**
 * The part of a config that a running process can apply, and the names of changed settings that
 * need a restart.
 */
interface ApplicableConfig {
  config: Config
  needsRestart: string[]
}

/**
 * Returns what a running process can apply of `next`: everything except where it listens, its
 * public address, and how its store is opened. Whom it trusts it applies.
 */
export function toApplicableConfig({ server, storage }: Config, next: Config): ApplicableConfig {
  const { cors, console, list_all_models, trusted_proxies, metrics_key } = next.server
  const { metrics_key: _, ...started } = server
  const live = {
    ...{ cors, console, list_all_models, trusted_proxies },
    ...(metrics_key === undefined ? {} : { metrics_key }),
  }
  const opened = { ...storage, refusals: next.storage.refusals }
  const config = { ...next, server: { ...started, ...live }, storage: opened }
  return { config, needsRestart: listChangedSettings(config, next) }
}

/**
 * Lists the names of the settings in which two configs differ: `limits.max_tokens`,
 * `providers.openai`, `models`. Never their values.
 */
export const listChangedSettings = (before: Config, after: Config): string[] =>
  listChangedNames(before, after).flatMap(section => {
    const [a, b] = [getMembers(before, section), getMembers(after, section)]
    return a && b ? listChangedNames(a, b).map(name => `${section}.${name}`) : [section]
  })

const listChangedNames = (a: object, b: object): string[] =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(
    name => !Bun.deepEquals(getMember(a, name), getMember(b, name)),
  )

function getMembers(config: Config, section: string): object | undefined {
  const value = getMember(config, section)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
}

// A provider may be named like a member that every object has.
const getMember = (object: object, name: string): unknown =>
  Object.getOwnPropertyDescriptor(object, name)?.value
