import type { EngineConfig } from '../../config/tools.ts'
import { GatewayError, invalid, notFound } from '../../errors.ts'
import { Cancellation } from '../../kernel/cancellation.ts'
import type { ProviderCheck } from '../../upstream/provider-check.ts'
import type { UpstreamWorld } from '../../upstream/world.ts'
import { runLimited, type UseLimit } from '../use-limit.ts'
import { type ConfiguredEngine, findEngineObstacle, listEngines } from './choose-engine.ts'
import type { SearchEngine } from './engine.ts'
import { ENGINES } from './registry.ts'
import { sendToEngine } from './search.ts'

/** Search engines are named so among providers: some providers have the same name. */
const PREFIX = 'web_search/'

/** Whether a name is a search engine's: `web_search/exa`. */
export const isEngineName = (name: string): boolean => name.startsWith(PREFIX)

/**
 * Checks every search engine of the config, or the named ones, with a request that costs nothing and
 * needs the key: the account's usage, or a search without a query. Each has `milliseconds` to
 * answer. Throws 404 for an unknown engine, 400 for one that cannot be used with this config.
 */
export async function checkEngines(
  world: UpstreamWorld,
  names: string[],
  milliseconds: number,
): Promise<{ data: ProviderCheck[] }> {
  const engines =
    names.length > 0
      ? names.map(name => getEngine(world, name.slice(PREFIX.length)))
      : listEngines(world.config).filter(
          ({ engine }) => findEngineObstacle(world.config, engine) === null,
        )
  return { data: await Promise.all(engines.map(one => checkEngine(world, one, milliseconds))) }
}

function getEngine({ config }: UpstreamWorld, name: string): ConfiguredEngine {
  const engine = ENGINES.find(one => one.name === name)
  if (!engine) throw notFound(`${JSON.stringify(name.slice(0, 200))} is not a search engine`)
  const obstacle = findEngineObstacle(config, engine)
  if (obstacle !== null) throw invalid(`${PREFIX}${name} cannot be checked: ${obstacle}`)
  return { engine, settings: config.web_search.engines[engine.name] ?? {} }
}

type Verdict = Pick<ProviderCheck, 'ok' | 'status' | 'error'>

async function checkEngine(
  world: UpstreamWorld,
  { engine, settings }: ConfiguredEngine,
  milliseconds: number,
): Promise<ProviderCheck> {
  const startedAt = world.clock.ticks()
  const verdict = await runLimited(new Cancellation(), milliseconds, limit =>
    probe(world, engine, settings, limit),
  ).catch(thrown => judgeFailure(thrown, milliseconds))
  const elapsed = Math.round(world.clock.ticks() - startedAt)
  return { provider: PREFIX + engine.name, ...verdict, milliseconds: elapsed }
}

// Some engines look at the request before the key. Then the request says nothing about it.
async function probe(
  world: UpstreamWorld,
  engine: SearchEngine,
  settings: EngineConfig,
  limit: UseLimit,
): Promise<Verdict> {
  const status = await readStatus(world, engine, settings, limit)
  if (isRefused(status)) return { ok: false, status, error: 'the credential is refused' }
  if (status === 200 && !engine.buildProbe(settings).body) return { ok: true, status, error: null }
  if (!INCOMPLETE.has(status)) return { ok: false, status, error: `answers with ${status}` }
  const { api_key: _, ...anonymous } = settings
  if (isRefused(await readStatus(world, engine, anonymous, limit)))
    return { ok: true, status, error: null }
  const error = 'answers; looks at the request before the credential, so that was not checked'
  return { ok: null, status, error }
}

const isRefused = (status: number): boolean => status === 401 || status === 403
/** How engines answer a search that is not complete. */
const INCOMPLETE = new Set([400, 422])

async function readStatus(
  world: UpstreamWorld,
  engine: SearchEngine,
  settings: EngineConfig,
  limit: UseLimit,
): Promise<number> {
  const branch = limit.open()
  try {
    const request = engine.buildProbe(settings)
    return (await sendToEngine(world, engine, settings, request, branch)).status
  } finally {
    limit.release(branch)
  }
}

function judgeFailure(thrown: unknown, milliseconds: number): Verdict {
  const isLate = thrown instanceof GatewayError && thrown.type === 'timeout'
  const code =
    thrown instanceof Error && 'code' in thrown ? `the connection failed: ${thrown.code}` : null
  const error = isLate
    ? `no answer within ${milliseconds / 1000} seconds`
    : (code ?? 'the answer cannot be read')
  return { ok: false, status: null, error }
}
