import type { CallBase } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'
import { createTextUsage, listUnits, type Units, type Usage } from '../../language/usage.ts'
import type { Kind, Work } from '../../language/work.ts'
import {
  type CountTokens,
  computeContentBound,
  computeLargestContent,
  estimateContent,
} from '../../translation/tokenizers/prompt.ts'
import type {
  ContentFiltering,
  Costing,
  KindOfWork,
  Meter,
  Metering,
  Understanding,
} from '../kind.ts'
import { listContentMedia, replaceUrl } from './media.ts'
import { rewriteContents } from './rewrite.ts'

/** What is specific to a kind. The first three fields are required; the rest has defaults. */
export interface KindDefinition<K extends Kind> {
  apiType: string
  /** Also the output modality of its models, unless `matchesModalities` says otherwise. */
  outputName: string
  understanding: Contents<K> & Partial<Understanding<K>>
  readApiType?: KindOfWork<K>['readApiType']
  matchesModalities?: KindOfWork<K>['matchesModalities']
  isMeaningful?: IsMeaningful<K>
  needsWhole?: NonNullable<KindOfWork<K>['needsWhole']>
  isFailure?: NonNullable<KindOfWork<K>['isFailure']>
  beginsJob?: boolean
  admitParts?: NonNullable<KindOfWork<K>['admitParts']>
  splitCall?: NonNullable<KindOfWork<K>['splitCall']>
  division?: NonNullable<KindOfWork<K>['division']>
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
export function defineKind<K extends Kind>(definition: KindDefinition<K>): KindOfWork<K> {
  const { apiType, outputName, isMeaningful = isContent } = definition
  const { readApiType = () => apiType } = definition
  const matchesModalities =
    definition.matchesModalities ?? ((modalities: string[]) => modalities.includes(outputName))
  return {
    apiType,
    readApiType,
    outputName,
    matchesModalities,
    isMeaningful,
    beginsJob: definition.beginsJob ?? false,
    ...(definition.needsWhole ? { needsWhole: definition.needsWhole } : {}),
    ...(definition.isFailure ? { isFailure: definition.isFailure } : {}),
    ...(definition.admitParts ? { admitParts: definition.admitParts } : {}),
    ...(definition.splitCall ? { splitCall: definition.splitCall } : {}),
    ...(definition.division ? { division: definition.division } : {}),
    understanding: buildUnderstanding(definition),
    costing: buildCosting(definition),
    metering: buildMetering(definition),
    filtering: buildFiltering(definition),
  }
}

/**
 * Returns true unless the call requires all of its parameters and some are ignored (K.1): then the
 * word of `excluded_by`.
 */
export const requireAll = ({ routing }: CallBase, ignored: string[]): string | true =>
  !routing.require_parameters || ignored.length === 0 || 'require_parameters'

/** Parts of every kind that are not content of its answers. */
const COMMON = new Set<string>(['start', 'usage', 'echo', 'error', 'receipt'])

const isContent = ({ type }: { type: string }): boolean => !COMMON.has(type)

function buildUnderstanding<K extends Kind>(definition: KindDefinition<K>): Understanding<K> {
  const { readContents, replaceContents } = definition.understanding
  const { readRichContents = readContents } = definition.understanding
  return {
    readRichContents,
    checkCounts: () => undefined,
    listVariants: () => [],
    applyVariant: call => call,
    checkEndpoint: () => true,
    supportsPreferred: () => true,
    getServiceTier: () => undefined,
    listIgnored: () => [],
    fitToEndpoint: call => call,
    removeNames: call => call,
    listMedia: call => listContentMedia(readRichContents(call)),
    replaceUrls(call, urls) {
      const replaceBlocks = (blocks: Block[]) => blocks.map(block => replaceUrl(block, urls))
      return replaceContents(call, readContents(call).map(replaceBlocks))
    },
    identifyConversation: null,
    offersTools: () => false,
    ...definition.understanding,
  }
}

const countNoUnits = (): Units => NO_UNITS

const NO_UNITS: Units = {}

function buildCosting<K extends Kind>(definition: KindDefinition<K>): Costing<K> {
  const { readContents } = definition.understanding
  const { estimateUnits = countNoUnits } = definition.costing ?? {}
  return {
    estimateInput: call => computeContentBound(readContents(call).flat()),
    boundInput: call => computeLargestContent(readContents(call).flat()),
    countPrompts: call => readContents(call).length,
    estimateUnits,
    boundUnits: estimateUnits,
    boundOutput: () => 0,
    computeLeastOutput: () => 0,
    needsOutputLimit: () => false,
    limitUnits: call => call,
    limitOutput: call => call,
    priceOutputToken: () => 0n,
    priceSurcharge: () => 0n,
    ...definition.costing,
  }
}

function buildMetering<K extends Kind>(definition: KindDefinition<K>): Metering<K> {
  const { isMeaningful = isContent, understanding } = definition
  const metering: Metering<K> = {
    startMeter: call => new WholeMeter(call, metering, isMeaningful),
    countInput: (call, count) => estimateContent(understanding.readContents(call).flat(), count),
    countShares: call => understanding.readContents(call).length,
    countUnits: definition.costing?.estimateUnits ?? countNoUnits,
    countOutput: () => 0,
    ...definition.metering,
  }
  return metering
}

function buildFiltering<K extends Kind>(definition: KindDefinition<K>): ContentFiltering<K> {
  const { readContents, replaceContents } = definition.understanding
  return {
    async rewriteTexts(call, rewriteSegment) {
      const contents = await rewriteContents(readContents(call), rewriteSegment)
      const rewritten = replaceContents(call, contents)
      return definition.filtering?.rewriteOther?.(rewritten, rewriteSegment) ?? rewritten
    },
    ...definition.filtering,
  }
}

type Part<K extends Kind> = Work[K]['part']

const ENDED = { reason: 'stop', native: null }
const NOT_STARTED = { upstream_id: null, service_tier: null }

/** The meter of an answer that comes whole: it has ended with the first part of its content. */
class WholeMeter<K extends Kind> implements Meter<Part<K>> {
  start: { upstream_id: string | null; service_tier: string | null } = NOT_STARTED
  readonly tokensSoFar = 0
  readonly hasValidToolCalls = () => null
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
    for (const part of parts) this.#readPart(part)
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

  async estimate(count: CountTokens): Promise<Usage> {
    const usage = createTextUsage(0, 0)
    const input = await this.#metering.countInput(this.#call, count)
    const image = this.#metering.countOutput(this.#call, this.#delivered)
    const other = await this.#metering.estimateOutput?.(this.#call, this.#delivered, count)
    return this.#addUnits({
      ...usage,
      input: { ...usage.input, ...input },
      output: { ...usage.output, image, ...other },
    })
  }

  #readPart(part: Part<K>): void {
    const knownPart: Work[Kind]['part'] = part
    if (knownPart.type === 'start') this.start = knownPart
    else if (knownPart.type === 'usage') this.#counted = knownPart.usage
    else if (this.#isMeaningful(part)) this.#delivered.push(part)
  }

  // A unit that the provider counts takes precedence.
  #addUnits(usage: Usage): Usage {
    const units = { ...this.#metering.countUnits(this.#call, this.#delivered), ...usage.units }
    const drawn = this.#metering.describeDrawn?.(this.#call, this.#delivered)
    const described = drawn ? { ...usage, drawn } : usage
    return listUnits(units).length === 0 ? described : { ...described, units }
  }
}
