import type { UsdPerMillionTokens } from '../../src/config/prices.ts'
import { findProtocol } from '../../src/resources/models/derived.ts'
import type { EndpointRow, ModelRow } from '../../src/resources/models/rows.ts'
import {
  type FoundModel,
  findContextLength,
  findOutput,
  readModalities,
  readReasoning,
} from './facts.ts'
import { findLatestAliases } from './latest.ts'
import { AT_HOME, AUTHORS, CONTEXTS, NOT_AT_HOME, OVERLAY, REQUESTS } from './overlay.ts'
import { isPlausible, joinPrices, readGenaiPrices, readPiPrices } from './prices.ts'
import { PROVIDER_SOURCES, type ProviderSource } from './providers.ts'
import { ReleaseDays } from './released.ts'
import { createSlug, parseProviderName, SLUG, Slugs } from './slugs.ts'
import type { PiModel, Sources } from './sources.ts'

export interface GatheredCatalog {
  models: ModelRow[]
  /** Maps each alias to its slug. */
  aliases: Record<string, string>
  /** The names that were left out, by reason. */
  leftOut: Map<string, string[]>
}

/**
 * Gathers every model of the packages under its public slug, with one endpoint per provider and the
 * day of its release where a source has it.
 */
export function gather(sources: Sources, today: string): GatheredCatalog {
  const gathering = new Gathering(sources, today)
  for (const [provider, source] of Object.entries(PROVIDER_SOURCES))
    gathering.takeProvider(provider, source)
  for (const row of OVERLAY) gathering.takeOverlay(row)
  for (const [provider, source] of Object.entries(PROVIDER_SOURCES))
    gathering.takeHome(provider, source)
  return gathering.build()
}

class Gathering {
  readonly #sources: Sources
  readonly #today: string
  readonly #slugs = new Slugs()
  /** The models that the public service serves now, by slug. */
  readonly #served = new Map<string, PiModel>()
  readonly #rows = new Map<string, ModelRow>()
  readonly #days: ReleaseDays
  readonly #aliases = new Map<string, string>()
  readonly #leftOut = new Map<string, string[]>()

  constructor(sources: Sources, today: string) {
    this.#sources = sources
    this.#today = today
    this.#days = new ReleaseDays(today)
    for (const model of sources.pi.get('openrouter') ?? []) this.#takeSlug(model)
    for (const { id } of sources.priced('openrouter'))
      if (/^[a-z]/.test(id) && SLUG.test(id)) this.#slugs.add(id)
  }

  #takeSlug(model: PiModel): void {
    if (model.type === 'classifier' || !SLUG.test(model.id)) return
    this.#served.set(model.id, model)
    this.#slugs.add(model.id)
  }

  takeProvider(provider: string, source: ProviderSource): void {
    const found = this.#listFound(provider, source).filter(
      one => !source.skip?.test(one.id) || this.#leaveOut('skipped by hand', provider, one.id),
    )
    for (const one of found.sort(comparePreference)) this.#takeEndpoint(one, source)
  }

  /**
   * Lists what pi-ai has, with its prices, and what only genai-prices has, where that is still
   * served.
   */
  #listFound(provider: string, source: ProviderSource): FoundModel[] {
    const { toUpstreamName = id => id } = source
    const prices = (source.priced ? this.#sources.priced(source.priced) : []).filter(
      row => !row.deprecated || this.#leaveOut('deprecated', provider, row.id),
    )
    const byName = new Map(prices.map(row => [normalizeName(toUpstreamName(row.id)), row]))
    const listed = (source.pi ? (this.#sources.pi.get(source.pi) ?? []) : []).filter(model =>
      this.#isSupportedKind(provider, model),
    )
    const both = listed.map(pi => ({
      provider,
      id: pi.id,
      model: toUpstreamName(pi.id),
      name: pi.name,
      pi,
      priced: byName.get(normalizeName(toUpstreamName(pi.id))),
    }))
    const joined = new Set(both.map(one => one.priced))
    const rest = prices
      .filter(row => !joined.has(row))
      .map(row => ({
        provider,
        id: row.id,
        model: toUpstreamName(row.id),
        name: row.name,
        pi: undefined,
        priced: row,
      }))
    return [...both, ...rest.filter(one => !source.pi || this.#isStillServed(one, source))]
  }

  #isSupportedKind(provider: string, model: PiModel): boolean {
    if (model.type === 'classifier')
      return this.#leaveOut('a kind of work without an API here', provider, model.id)
    if (/:batch$/.test(model.id))
      return this.#leaveOut('a price for batch answers', provider, model.id)
    if (/^~|-latest$/.test(model.id) && !/^(gpt-)?chat-latest$/.test(model.id))
      return this.#leaveOut('a name that moves', provider, model.id)
    return true
  }

  // genai-prices keeps models that no longer exist. Still served are those that their maker has on
  // the public list, and kinds that pi-ai does not list.
  #isStillServed({ provider, id }: FoundModel, { home, keep }: ProviderSource): boolean {
    const parts = parseProviderName(id, home)
    if (parts && (findOutput(parts.name) ?? ['text'])[0] !== 'text' && !/vision|ada-002/.test(id))
      return true
    const slug = parts && this.#slugs.find(parts)
    const isMaker = home !== undefined || provider === 'bedrock'
    if (keep?.test(id) || (isMaker && slug !== undefined && this.#served.has(slug))) return true
    return this.#leaveOut('priced, but not listed any more', provider, id)
  }

  #takeEndpoint(found: FoundModel, source: ProviderSource): void {
    const slug = this.#findSlug(found, source)
    if (!slug) return
    const row = this.#getRow(slug, found)
    this.#days.addNames(slug, found)
    const endpoint =
      row.endpoints.find(one => one.provider === found.provider) ?? this.#createEndpoint(found, row)
    if (!endpoint) return
    if (!row.endpoints.includes(endpoint)) row.endpoints.push(endpoint)
    this.#takeAlias(found, slug)
  }

  #findSlug({ provider, id }: FoundModel, { home, joinsOnly }: ProviderSource): string | undefined {
    if (this.#served.has(id) && (provider === 'openrouter' || joinsOnly)) return id
    const parts = parseProviderName(id, home)
    if (!parts) return this.#drop('an unknown author', provider, id)
    const found = this.#slugs.find(parts)
    const slug = found ?? createSlug(parts)
    if (joinsOnly && !this.#rows.has(slug))
      return this.#drop('a model that only a reseller has', provider, id)
    if (!SLUG.test(slug)) return this.#drop('a name that gives no slug', provider, id)
    this.#slugs.add(slug)
    return slug
  }

  #getRow(slug: string, found: FoundModel): ModelRow {
    const known = this.#rows.get(slug)
    if (known) return known
    const served = this.#served.get(slug)
    const row: ModelRow = {
      id: slug,
      name: served?.name ?? this.#buildName(slug, found),
      ...readModalities(slug, served ?? found.pi),
      endpoints: [],
    }
    const context = served?.contextWindow ?? findContextLength(found) ?? CONTEXTS[slug]
    if (context) row.context_length = context
    const reasoning = readReasoning(slug, served ?? found.pi)
    if (reasoning) row.reasoning = reasoning
    this.#rows.set(slug, row)
    return row
  }

  #buildName(slug: string, { name }: FoundModel): string {
    const [author = '', model = ''] = slug.split('/')
    const like = [...this.#served.values()].find(
      one => one.id.startsWith(`${author}/`) && one.name.includes(': '),
    )
    const displayName = like?.name.slice(0, like.name.indexOf(': ')) ?? AUTHORS[author] ?? author
    const isText = name && findOutput(model) === undefined
    return `${displayName}: ${isText ? name.replace(/ \((latest|Global|US|EU)\)$/, '') : model}`
  }

  #takeAlias({ model, provider }: FoundModel, slug: string): void {
    const alias =
      `${slug.slice(0, slug.indexOf('/'))}/${model.slice(model.lastIndexOf('/') + 1)}`.toLowerCase()
    if (alias !== slug && SLUG.test(alias) && PROVIDER_SOURCES[provider]?.home)
      this.#aliases.set(alias, slug)
  }

  #createEndpoint(found: FoundModel, row: ModelRow): EndpointRow | undefined {
    const { provider, model, pi, priced } = found
    const fromPi = pi && (model.endsWith(':free') ? { prompt: 0, completion: 0 } : readPiPrices(pi))
    const { prices, conflict } = joinPrices(fromPi, priced && readGenaiPrices(priced, this.#today))
    if (conflict) this.#leaveOut('the older of two different prices', provider, model)
    if (prices && !isPlausible(prices)) return this.#drop('an implausible price', provider, model)
    const parts = parseProviderName(model, undefined)
    const context = findContextLength(found)
    const protocol = findProtocol(provider, model)
    return {
      provider,
      model,
      ...(protocol ? { protocol } : {}),
      ...(prices ? { prices: addRequestPrice(row.id, prices) } : {}),
      ...(context && context !== row.context_length ? { context_length: context } : {}),
      ...(pi?.maxTokens ? { max_completion_tokens: pi.maxTokens } : {}),
      ...(pi?.reasoning !== undefined ? { reasoning: pi.reasoning } : {}),
      ...(parts?.quantization ? { quantization: parts.quantization } : {}),
      ...(/^(us|eu)\./.test(model) ? { region: model.slice(0, 2) } : {}),
    }
  }

  takeOverlay({
    id,
    name,
    provider,
    model,
    prices,
    context_length,
    output,
  }: (typeof OVERLAY)[number]): void {
    const known = this.#rows.get(id)
    if (known) {
      const unpriced = known.endpoints.find(one => one.provider === provider && !one.prices)
      if (unpriced) unpriced.prices = prices
      if (!known.endpoints.some(one => one.provider === provider))
        known.endpoints.unshift({ provider, model, prices })
      return
    }
    this.#rows.set(id, {
      id,
      name,
      ...(context_length === undefined ? {} : { context_length }),
      output,
      endpoints: [{ provider, model, prices }],
    })
  }

  /** Adds the author's endpoint to its models that only others list, at the price of a reseller. */
  takeHome(provider: string, { home, closed }: ProviderSource): void {
    for (const { id, endpoints } of this.#rows.values()) {
      const [author, name = ''] = id.split('/')
      const isAtHome = author === home && closed?.test(name) && !NOT_AT_HOME.test(id)
      if (!isAtHome || endpoints.some(one => one.provider === provider)) continue
      const sold = endpoints.find(one => one.provider === 'openrouter') ?? endpoints[0]
      if (!sold || id.includes(':')) continue
      const { quantization: _, region: __, context_length: ___, ...row } = sold
      const own = { model: name, ...AT_HOME[id] }
      const protocol = findProtocol(provider, own.model)
      endpoints.push({ ...row, provider, ...own, ...(protocol ? { protocol } : {}) })
    }
  }

  #leaveOut(why: string, provider: string, model: string): false {
    this.#leftOut.set(why, [...(this.#leftOut.get(why) ?? []), `${provider} ${model}`])
    return false
  }

  #drop(why: string, provider: string, model: string): undefined {
    this.#leaveOut(why, provider, model)
  }

  build(): GatheredCatalog {
    const models = [...this.#rows.values()]
      .filter(row => row.endpoints.length > 0)
      .sort((a, b) => (a.id < b.id ? -1 : 1))
    for (const [name, day] of this.#sources.released) this.#takeDay(name, day)
    const dated = models.map(row => this.#addReleaseDay(row))
    for (const row of dated)
      row.endpoints.sort((a, b) => rankProvider(a, row) - rankProvider(b, row))
    const known = new Set(models.map(row => row.id))
    const latest = findLatestAliases(this.#sources.pi.get('openrouter') ?? [], known)
    const aliases = [...this.#aliases, ...latest]
      .filter(([alias, slug]) => known.has(slug) && !known.has(alias))
      .sort()
    return { models: dated, aliases: Object.fromEntries(aliases), leftOut: this.#leftOut }
  }

  // Runs once every slug is known, so that a name joins its own model.
  #takeDay(name: string, day: string): void {
    const parts = this.#rows.has(name) ? undefined : parseProviderName(name, undefined)
    const slug = parts ? this.#slugs.find(parts) : name
    if (slug) this.#days.add(slug, day)
  }

  #addReleaseDay({ id, name, input, output, ...row }: ModelRow): ModelRow {
    const created = this.#days.find(id)
    return {
      id,
      name,
      ...(input ? { input } : {}),
      ...(output ? { output } : {}),
      ...(created ? { created } : {}),
      ...row,
    }
  }
}

// Of a provider's names for one model, prefers those that are listed, then those that work in every
// region, then the shortest.
const comparePreference = (a: FoundModel, b: FoundModel): number =>
  Number(!a.pi) - Number(!b.pi) || rankRegion(a.id) - rankRegion(b.id) || a.id.length - b.id.length

const REGIONS = ['global.', '', 'us.', 'eu.', 'regional.']
const rankRegion = (id: string) => REGIONS.indexOf(/^(global|us|eu|regional)\./.exec(id)?.[0] ?? '')

// The maker comes first, resellers last.
function rankProvider({ provider }: EndpointRow, { id }: ModelRow): number {
  const source = PROVIDER_SOURCES[provider]
  if (source?.joinsOnly || provider === 'openrouter') return 2
  return source?.home !== undefined && id.startsWith(`${source.home}/`) ? 0 : 1
}

const normalizeName = (id: string) =>
  id
    .toLowerCase()
    .replace(/-latest$/, '')
    .replace(/(?<=\d)p(?=\d)/g, '.')

function addRequestPrice(slug: string, prices: UsdPerMillionTokens): UsdPerMillionTokens {
  const request = REQUESTS[slug]
  return request === undefined || prices.request === undefined ? prices : { ...prices, request }
}
