import type { FetchEngineConfig } from '../../../config/tools.ts'
import type { Config } from '../../../config.ts'
import type { FetchEngine } from './engine.ts'
import { FETCH_ENGINES } from './registry.ts'

/** A service that reads pages, and its settings. */
export interface ConfiguredFetchEngine {
  engine: FetchEngine
  settings: FetchEngineConfig
}

/** The names of the engine that the gateway itself is. */
const OWN_NAMES = new Set(['auto', 'gateway', 'openrouter'])

/**
 * Returns who reads pages for a call that names an engine: null for the gateway itself, a service of
 * the config, or why that cannot be asked.
 */
export function chooseFetchEngine(
  config: Config,
  name: string,
): ConfiguredFetchEngine | { obstacle: string } | null {
  if (OWN_NAMES.has(name)) return null
  const engine = FETCH_ENGINES.find(one => one.name === name)
  if (!engine)
    return { obstacle: `the engine ${name} is not one of this gateway: expected ${EXPECTED}` }
  const obstacle = findFetchEngineObstacle(config, engine)
  if (obstacle !== null) return { obstacle: `the engine ${name} cannot be used: ${obstacle}` }
  return { engine, settings: config.web_fetch.engines[engine.name] ?? {} }
}

const EXPECTED = [...OWN_NAMES, ...FETCH_ENGINES.map(({ name }) => name)].join(', ')

/** Returns why a service cannot be asked with this config; null if it can. */
export function findFetchEngineObstacle(
  { web_fetch: { engines } }: Config,
  { name }: FetchEngine,
): string | null {
  const settings = engines[name]
  const path = `web_fetch.engines.${name}`
  if (!settings) return `it is not configured (${path})`
  if (settings.enabled === false) return `it is switched off (${path}.enabled)`
  return settings.api_key === undefined ? `it has no key (${path}.api_key)` : null
}
