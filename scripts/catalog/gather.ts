import type { EndpointRow, ModelRow } from '../../src/core/catalog/models/rows.ts'
import type { UsdPerMillionTokens } from '../../src/core/config/prices.ts'
import { contextOf, type Found, modalitiesOf, outputOf, reasoningOf } from './facts.ts'
import { latestAliases } from './latest.ts'
import { AUTHORS, CONTEXTS, OVERLAY, PROTOCOLS, REQUESTS } from './overlay.ts'
import { genaiPrices, isSound, joined, piPrices } from './prices.ts'
import { PROVIDER_SOURCES, type ProviderSource } from './providers.ts'
import { ReleaseDays } from './released.ts'
import { newSlug, partsOf, SLUG, Slugs } from './slugs.ts'
import type { PiModel, Sources } from './sources.ts'

export interface Gathered {
  models: ModelRow[]
  /** Maps each alias to its slug. */
  aliases: Record<string, string>
  /** The names that were left out, by reason. */
  left: Map<string, string[]>
}

/**
 * Gathers every model of the packages under its public slug, with one endpoint per provider and the
 * day of its release where a source has it.
 */
export function gather(sources: Sources, today: string): Gathered {
  const gathering = new Gathering(sources, today)
  for (const [provider, source] of Object.entries(PROVIDER_SOURCES))
    gathering.takeProvider(provider, source)
  for (const row of OVERLAY) gathering.takeOverlay(row)
  return gathering.result()
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
  readonly #left = new Map<string, string[]>()

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
    const found = this.#foundAt(provider, source).filter(
      one => !source.skip?.test(one.id) || this.#leave('skipped by hand', provider, one.id),
    )
    for (const one of found.sort(byPreference)) this.#takeEndpoint(one, source)
  }

  /**
   * Lists what pi-ai has, with its prices, and what only genai-prices has, where that is still
   * served.
   */
  #foundAt(provider: string, source: ProviderSource): Found[] {
    const { own = id => id } = source
    const prices = (source.priced ? this.#sources.priced(source.priced) : []).filter(
      row => !row.deprecated || this.#leave('deprecated', provider, row.id),
    )
    const byName = new Map(prices.map(row => [plain(own(row.id)), row]))
    const listed = (source.pi ? (this.#sources.pi.get(source.pi) ?? []) : []).filter(model =>
      this.#isWork(provider, model),
    )
    const both = listed.map(pi => ({
      provider,
      id: pi.id,
      model: own(pi.id),
      name: pi.name,
      pi,
      priced: byName.get(plain(own(pi.id))),
    }))
    const taken = new Set(both.map(one => one.priced))
    const rest = prices
      .filter(row => !taken.has(row))
      .map(row => ({
        provider,
        id: row.id,
        model: own(row.id),
        name: row.name,
        pi: undefined,
        priced: row,
      }))
    return [...both, ...rest.filter(one => !source.pi || this.#isStillServed(one, source))]
  }

  #isWork(provider: string, model: PiModel): boolean {
    if (model.type === 'classifier')
      return this.#leave('a kind of work without an API here', provider, model.id)
    if (/:batch$/.test(model.id))
      return this.#leave('a price for batch answers', provider, model.id)
    if (/^~|-latest$/.test(model.id) && !/^(gpt-)?chat-latest$/.test(model.id))
      return this.#leave('a name that moves', provider, model.id)
    return true
  }

  // genai-prices keeps models that no longer exist. Still served are those that their maker has on
  // the public list, and kinds that pi-ai does not list.
  #isStillServed({ provider, id }: Found, { home, keep }: ProviderSource): boolean {
    const parts = partsOf(id, home)
    if (parts && (outputOf(parts.name) ?? ['text'])[0] !== 'text' && !/vision|ada-002/.test(id))
      return true
    const slug = parts && this.#slugs.find(parts)
    const isMaker = home !== undefined || provider === 'bedrock'
    if (keep?.test(id) || (isMaker && slug !== undefined && this.#served.has(slug))) return true
    return this.#leave('priced, but not listed any more', provider, id)
  }

  #takeEndpoint(found: Found, source: ProviderSource): void {
    const slug = this.#slugOf(found, source)
    if (!slug) return
    const row = this.#row(slug, found)
    this.#days.takeNames(slug, found)
    const endpoint =
      row.endpoints.find(one => one.provider === found.provider) ?? this.#endpoint(found, row)
    if (!endpoint) return
    if (!row.endpoints.includes(endpoint)) row.endpoints.push(endpoint)
    this.#takeAlias(found, slug)
  }

  #slugOf({ provider, id }: Found, { home, joinsOnly }: ProviderSource): string | undefined {
    if (this.#served.has(id) && (provider === 'openrouter' || joinsOnly)) return id
    const parts = partsOf(id, home)
    if (!parts) return this.#drop('an unknown author', provider, id)
    const found = this.#slugs.find(parts)
    const slug = found ?? newSlug(parts)
    if (joinsOnly && !this.#rows.has(slug))
      return this.#drop('a model that only a reseller has', provider, id)
    if (!SLUG.test(slug)) return this.#drop('a name that gives no slug', provider, id)
    this.#slugs.add(slug)
    return slug
  }

  #row(slug: string, found: Found): ModelRow {
    const known = this.#rows.get(slug)
    if (known) return known
    const served = this.#served.get(slug)
    const row: ModelRow = {
      id: slug,
      name: served?.name ?? this.#nameOf(slug, found),
      ...modalitiesOf(slug, served ?? found.pi),
      endpoints: [],
    }
    const context = served?.contextWindow ?? contextOf(found) ?? CONTEXTS[slug]
    if (context) row.context_length = context
    const reasoning = reasoningOf(slug, served ?? found.pi)
    if (reasoning) row.reasoning = reasoning
    this.#rows.set(slug, row)
    return row
  }

  #nameOf(slug: string, { name }: Found): string {
    const [author = '', model = ''] = slug.split('/')
    const like = [...this.#served.values()].find(
      one => one.id.startsWith(`${author}/`) && one.name.includes(': '),
    )
    const shown = like?.name.slice(0, like.name.indexOf(': ')) ?? AUTHORS[author] ?? author
    const isText = name && outputOf(model) === undefined
    return `${shown}: ${isText ? name.replace(/ \((latest|Global|US|EU)\)$/, '') : model}`
  }

  #takeAlias({ model, provider }: Found, slug: string): void {
    const alias =
      `${slug.slice(0, slug.indexOf('/'))}/${model.slice(model.lastIndexOf('/') + 1)}`.toLowerCase()
    if (alias !== slug && SLUG.test(alias) && PROVIDER_SOURCES[provider]?.home)
      this.#aliases.set(alias, slug)
  }

  #endpoint(found: Found, row: ModelRow): EndpointRow | undefined {
    const { provider, model, pi, priced } = found
    const fromPi = pi && (model.endsWith(':free') ? { prompt: 0, completion: 0 } : piPrices(pi))
    const { prices, conflict } = joined(fromPi, priced && genaiPrices(priced, this.#today))
    if (conflict) this.#leave('the older of two different prices', provider, model)
    if (prices && !isSound(prices)) return this.#drop('an implausible price', provider, model)
    const parts = partsOf(model, undefined)
    const context = contextOf(found)
    const protocol = PROTOCOLS.find(([at, name]) => at.test(provider) && name.test(model))?.[2]
    return {
      provider,
      model,
      ...(protocol ? { protocol } : {}),
      ...(prices ? { prices: withRequest(row.id, prices) } : {}),
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
    if (this.#rows.has(id)) return
    this.#rows.set(id, {
      id,
      name,
      context_length,
      output,
      endpoints: [{ provider, model, prices }],
    })
  }

  #leave(why: string, provider: string, model: string): false {
    this.#left.set(why, [...(this.#left.get(why) ?? []), `${provider} ${model}`])
    return false
  }

  #drop(why: string, provider: string, model: string): undefined {
    this.#leave(why, provider, model)
  }

  result(): Gathered {
    const models = [...this.#rows.values()]
      .filter(row => row.endpoints.length > 0)
      .sort((a, b) => (a.id < b.id ? -1 : 1))
    for (const [name, day] of this.#sources.released) this.#takeDay(name, day)
    const dated = models.map(row => this.#dated(row))
    for (const row of dated) row.endpoints.sort((a, b) => placeOf(a, row) - placeOf(b, row))
    const known = new Set(models.map(row => row.id))
    const latest = latestAliases(this.#sources.pi.get('openrouter') ?? [], known)
    const aliases = [...this.#aliases, ...latest]
      .filter(([alias, slug]) => known.has(slug) && !known.has(alias))
      .sort()
    return { models: dated, aliases: Object.fromEntries(aliases), left: this.#left }
  }

  // Runs once every slug is known, so that a name joins its own model.
  #takeDay(name: string, day: string): void {
    const parts = this.#rows.has(name) ? undefined : partsOf(name, undefined)
    const slug = parts ? this.#slugs.find(parts) : name
    if (slug) this.#days.tell(slug, day)
  }

  #dated({ id, name, input, output, ...row }: ModelRow): ModelRow {
    const created = this.#days.of(id)
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
const byPreference = (a: Found, b: Found): number =>
  Number(!a.pi) - Number(!b.pi) || regionRank(a.id) - regionRank(b.id) || a.id.length - b.id.length

const REGIONS = ['global.', '', 'us.', 'eu.', 'regional.']
const regionRank = (id: string) => REGIONS.indexOf(/^(global|us|eu|regional)\./.exec(id)?.[0] ?? '')

// The maker comes first, resellers last.
function placeOf({ provider }: EndpointRow, { id }: ModelRow): number {
  const source = PROVIDER_SOURCES[provider]
  if (source?.joinsOnly || provider === 'openrouter') return 2
  return source?.home !== undefined && id.startsWith(`${source.home}/`) ? 0 : 1
}

const plain = (id: string) =>
  id
    .toLowerCase()
    .replace(/-latest$/, '')
    .replace(/(?<=\d)p(?=\d)/g, '.')

function withRequest(slug: string, prices: UsdPerMillionTokens): UsdPerMillionTokens {
  const request = REQUESTS[slug]
  return request === undefined || prices.request === undefined ? prices : { ...prices, request }
}
