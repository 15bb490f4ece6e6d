import type { Block } from '../../language/message.ts'
import { namesOfUnits, type Units } from '../../language/units.ts'
import { textUsage, type Usage } from '../../language/usage.ts'
import type { Kind, Work } from '../../language/work.ts'
import {
  type Counter,
  contentBound,
  contentEstimate,
  largestContent,
} from '../../tokenizers/prompt.ts'
import type {
  ContentFiltering,
  Costing,
  KindOfWork,
  Meter,
  Metering,
  Understanding,
} from '../kinds.ts'
import { listMediaIn, replaceUrl } from '../media.ts'
import { rewriteContents } from './rewrite.ts'

/** What is specific to a kind. The first three fields are required; the rest has defaults. */
export interface KindDefinition<K extends Kind> {
  apiType: string
  /** Also the output modality of its models, unless `matchesModalities` says otherwise. */
  gives: string
  understanding: Contents<K> & Partial<Understanding<K>>
  isGivenBy?: KindOfWork<K>['isGivenBy']
  isMeaningful?: IsMeaningful<K>
  costing?: Partial<Costing<K>>
  metering?: Partial<Metering<K>>
  filtering?: Partial<ContentFiltering<K>>
}

type IsMeaningful<K extends Kind> = KindOfWork<K>['isMeaningful']
type Contents<K extends Kind> = Pick<Understanding<K>, 'readContents' | 'replaceContents'>

/**
 * Defines a kind of work by what is specific to it. The defaults are those of a kind that answers
 * whole and charges for its input: no variants, parameters, tools or conversations; no tokens of
 * output and no units. They are applied once, when the module is loaded.
 */
export function defineKind<K extends Kind>(own: KindDefinition<K>): KindOfWork<K> {
  const { apiType, gives, isMeaningful = isContent } = own
  const isGivenBy = own.isGivenBy ?? ((modalities: string[]) => modalities.includes(gives))
  return {
    apiType,
    gives,
    isGivenBy,
    isMeaningful,
    understanding: buildUnderstanding(own),
    costing: buildCosting(own),
    metering: buildMetering(own),
    filtering: buildFiltering(own),
  }
}

/** Parts of every kind that are not content of its answers. */
const COMMON = new Set<string>(['start', 'usage', 'echo', 'error', 'receipt'])

const isContent = ({ type }: { type: string }): boolean => !COMMON.has(type)

function buildUnderstanding<K extends Kind>(own: KindDefinition<K>): Understanding<K> {
  const { readContents, replaceContents } = own.understanding
  return {
    listVariants: () => [],
    applyVariant: call => call,
    serves: () => true,
    suits: () => true,
    listIgnored: () => [],
    fitToEndpoint: call => call,
    removeNames: call => call,
    listMedia: call => listMediaIn(readContents(call)),
    replaceUrls(call, urls) {
      const replaceIn = (blocks: Block[]) => blocks.map(block => replaceUrl(block, urls))
      return replaceContents(call, readContents(call).map(replaceIn))
    },
    identifyConversation: null,
    offersTools: () => false,
    ...own.understanding,
  }
}

const noUnits = (): Units => NO_UNITS

const NO_UNITS: Units = {}

function buildCosting<K extends Kind>(own: KindDefinition<K>): Costing<K> {
  const { readContents } = own.understanding
  const { estimateUnits = noUnits } = own.costing ?? {}
  return {
    estimateInput: call => contentBound(readContents(call).flat()),
    boundInput: call => largestContent(readContents(call).flat()),
    estimateUnits,
    boundUnits: estimateUnits,
    boundOutput: () => 0,
    leastOutput: () => 0,
    asksForMore: () => false,
    limitOutput: call => call,
    priceOutputToken: () => 0n,
    priceSurcharge: () => 0n,
    ...own.costing,
  }
}

function buildMetering<K extends Kind>(own: KindDefinition<K>): Metering<K> {
  const { isMeaningful = isContent, understanding } = own
  const metering: Metering<K> = {
    startMeter: call => new WholeMeter(call, metering, isMeaningful),
    countInput: (call, count) => contentEstimate(understanding.readContents(call).flat(), count),
    countUnits: own.costing?.estimateUnits ?? noUnits,
    ...own.metering,
  }
  return metering
}

function buildFiltering<K extends Kind>(own: KindDefinition<K>): ContentFiltering<K> {
  const { readContents, replaceContents } = own.understanding
  return {
    async rewriteTexts(call, reword) {
      return replaceContents(call, await rewriteContents(readContents(call), reword))
    },
    ...own.filtering,
  }
}

type Part<K extends Kind> = Work[K]['part']

const ENDED = { reason: 'stop', native: null }
const NOT_STARTED = { upstream_id: null, service_tier: null }

/** The meter of an answer that comes whole: it has ended with the first part of its content. */
class WholeMeter<K extends Kind> implements Meter<Part<K>> {
  start: { upstream_id: string | null; service_tier: string | null } = NOT_STARTED
  readonly soFar = 0
  readonly isSound = () => null
  readonly #call: Work[K]['call']
  readonly #metering: Metering<K>
  readonly #isMeaningful: IsMeaningful<K>
  readonly #delivered: Part<K>[] = []
  #counted: Usage | null = null

  constructor(call: Work[K]['call'], metering: Metering<K>, isMeaningful: IsMeaningful<K>) {
    this.#call = call
    this.#metering = metering
    this.#isMeaningful = isMeaningful
  }

  read(parts: Part<K>[]): void {
    for (const part of parts) this.#see(part)
  }

  get usage(): Usage | null {
    return this.#counted && this.#addUnits(this.#counted)
  }

  get delivered(): boolean {
    return this.#delivered.length > 0
  }

  get finish(): { reason: string; native: string | null } | null {
    return this.delivered ? ENDED : null
  }

  async estimate(count: Counter): Promise<Usage> {
    const usage = textUsage(0, 0)
    const input = await this.#metering.countInput(this.#call, count)
    return this.#addUnits({ ...usage, input: { ...usage.input, ...input } })
  }

  #see(part: Part<K>): void {
    const told: Work[Kind]['part'] = part
    if (told.type === 'start') this.start = told
    else if (told.type === 'usage') this.#counted = told.usage
    else if (this.#isMeaningful(part)) this.#delivered.push(part)
  }

  // A unit that the provider counts takes precedence.
  #addUnits(usage: Usage): Usage {
    const units = { ...this.#metering.countUnits(this.#call, this.#delivered), ...usage.units }
    return namesOfUnits(units).length === 0 ? usage : { ...usage, units }
  }
}
