import { Cancellation } from '../../base/cancellation.ts'
import { GatewayError, invalid, notFound } from '../../base/errors.ts'
import type { Config } from '../../config.ts'
import { checkProviders, type ProviderCheck } from '../../network/provider-check.ts'
import type { UpstreamWorld } from '../../network/world.ts'
import type { CatalogWorld } from '../../resources/catalog-world.ts'
import { findOcrObstacle, OCR_SERVICE } from './ocr-service.ts'
import { runLimited, type UseLimit } from './use-limit.ts'
import { findFetchEngineObstacle } from './web-fetch/choose-engine.ts'
import { FETCH_ENGINES } from './web-fetch/registry.ts'
import { findEngineObstacle } from './web-search/choose-engine.ts'
import type { EngineRequest } from './web-search/engine.ts'
import { ENGINES } from './web-search/registry.ts'
import { sendToEngine } from './web-search/search.ts'

/**
 * Checks every configured provider and engine, or the named ones, with requests that cost nothing.
 * An engine is named `web_search/exa`, `web_fetch/exa` or `file-parser/mistral-ocr`. Throws as `checkProviders` and `checkEngines` do.
 */
export async function checkAll(
  world: CatalogWorld & UpstreamWorld,
  names: string[],
  milliseconds: number,
): Promise<{ data: ProviderCheck[] }> {
  const engines = names.filter(isEngineName)
  const providers = names.filter(name => !isEngineName(name))
  const isForAll = names.length === 0
  const [checked, searched] = await Promise.all([
    isForAll || providers.length > 0
      ? checkProviders(world, providers, milliseconds)
      : { data: [] },
    isForAll || engines.length > 0 ? checkEngines(world, engines, milliseconds) : { data: [] },
  ])
  return { data: [...checked.data, ...searched.data] }
}

/** The settings that a check reads, of a search engine and of a service that reads pages. */
interface Access {
  api_key?: string
  base_url?: string
}

/** Something that can be checked, with its settings. */
interface Checked {
  /** `web_search/exa`. */
  name: string
  engine: { baseUrl: string | null; buildProbe(settings: Access): EngineRequest }
  settings: Access
  /** Why it cannot be asked; null if it can. */
  obstacle: string | null
}

/** Engines are named after their tool or plugin among providers: some providers have the same name. */
const TOOLS: Record<string, { kind: string; list(config: Config): Checked[] }> = {
  web_search: {
    kind: 'a search engine',
    list: config =>
      ENGINES.map(engine => ({
        ...{ name: `web_search/${engine.name}`, engine },
        settings: config.web_search.engines[engine.name] ?? {},
        obstacle: findEngineObstacle(config, engine),
      })),
  },
  web_fetch: {
    kind: 'a service that reads pages',
    list: config =>
      FETCH_ENGINES.map(engine => ({
        ...{ name: `web_fetch/${engine.name}`, engine },
        settings: config.web_fetch.engines[engine.name] ?? {},
        obstacle: findFetchEngineObstacle(config, engine),
      })),
  },
  'file-parser': {
    kind: 'a service that reads PDFs',
    list: config => [
      {
        ...{ name: `file-parser/${OCR_SERVICE.name}`, engine: OCR_SERVICE },
        settings: config.plugins.mistral_ocr ?? {},
        obstacle: findOcrObstacle(config),
      },
    ],
  },
}

/** Whether a name is an engine's: `web_search/exa`. */
const isEngineName = (name: string): boolean => name.includes('/') && findTool(name) !== null

const findTool = (name: string) => {
  const [tool = ''] = name.split('/', 1)
  return Object.hasOwn(TOOLS, tool) ? (TOOLS[tool] ?? null) : null
}

/**
 * Checks every engine of the config, or the named ones, with a request that costs nothing and needs
 * the key: the account's usage, or a search without a query. Each has `milliseconds` to answer.
 * Throws 404 for an unknown engine, 400 for one that cannot be used with this config.
 */
async function checkEngines(
  world: UpstreamWorld,
  names: string[],
  milliseconds: number,
): Promise<{ data: ProviderCheck[] }> {
  const engines =
    names.length > 0
      ? names.map(name => getEngine(world, name))
      : Object.values(TOOLS).flatMap(({ list }) =>
          list(world.config).filter(({ obstacle }) => obstacle === null),
        )
  return { data: await Promise.all(engines.map(one => checkEngine(world, one, milliseconds))) }
}

function getEngine({ config }: UpstreamWorld, name: string): Checked {
  const tool = findTool(name)
  const found = tool?.list(config).find(one => one.name === name)
  const shown = JSON.stringify(name.slice(name.indexOf('/') + 1).slice(0, 200))
  if (!found) throw notFound(`${shown} is not ${tool?.kind ?? 'an engine'}`)
  if (found.obstacle !== null) throw invalid(`${name} cannot be checked: ${found.obstacle}`)
  return found
}

type Verdict = Pick<ProviderCheck, 'ok' | 'status' | 'error'>

async function checkEngine(
  world: UpstreamWorld,
  { name, engine, settings }: Checked,
  milliseconds: number,
): Promise<ProviderCheck> {
  const startedAt = world.clock.ticks()
  const verdict = await runLimited(new Cancellation(), milliseconds, limit =>
    probe(world, engine, settings, limit),
  ).catch(thrown => judgeFailure(thrown, milliseconds))
  const elapsed = Math.round(world.clock.ticks() - startedAt)
  return { provider: name, ...verdict, milliseconds: elapsed }
}

// Some engines look at the request before the key. Then the request says nothing about it.
async function probe(
  world: UpstreamWorld,
  engine: Checked['engine'],
  settings: Access,
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
  engine: Checked['engine'],
  settings: Access,
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
