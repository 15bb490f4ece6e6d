import type { Cancellation } from '../base/cancellation.ts'
import type { GatewayError } from '../base/errors.ts'
import type { Block } from '../language/message.ts'
import type { ServiceTier } from '../language/routing.ts'
import type { TextRewrite } from '../language/text-segment.ts'
import type { Drawn, Units, Usage } from '../language/usage.ts'
import type { Division, Kind, Work } from '../language/work.ts'
import type { FilterSet } from '../limits/filters/filter-set.ts'
import type { UpstreamWorld } from '../network/world.ts'
import type { Endpoint, Model } from '../resources/models/catalog.ts'
import type { Prices } from '../resources/prices.ts'
import type { CountTokens, ExpectedInput } from '../translation/tokenizers/prompt.ts'
import type { Filtering } from './filtering.ts'
import type { MediaReference } from './kinds/media.ts'

type Call<K extends Kind> = Work[K]['call']
type Part<K extends Kind> = Work[K]['part']

/** What differs between the kinds of work. The rest of the life of a call is the same for all. */
export interface KindOfWork<K extends Kind> {
  /** Its `api_type` on the record, unless the dialect of a call has its own. */
  apiType: string
  /** Returns the `api_type` on the record of a call. */
  readApiType(call: Call<K>): string
  /** What it outputs, in a word for people. */
  outputName: string
  /** Tells whether a model with these output modalities does this kind of work. */
  matchesModalities(outputModalities: string[]): boolean
  /** Tells whether a caller can use the part. After the first one no other endpoint is tried. */
  isMeaningful(part: Part<K>): boolean
  /**
   * Tells whether the client can use nothing of an answer that breaks off. Then all of it is waited
   * for before it is decided that no other endpoint is tried. Absent if no client is like that.
   */
  needsWhole?(call: Call<K>): boolean
  /** Tells whether a part says that the provider has failed. */
  isFailure?(part: Part<K>): boolean
  /**
   * Whether an answer only begins the work, as a job at the provider: it outlives the call, and is
   * charged when it is done. Nothing stops a call that may have begun one.
   */
  beginsJob: boolean
  /**
   * Checks what a provider sent before any of it is part of the answer, and fetches what it only
   * refers to. Throws `provider_unavailable` for what is none. Absent if protocols check all of it.
   */
  admitParts?(world: UpstreamWorld, parts: Part<K>[], asked: Asked<K>): Promise<Part<K>[]>
  /**
   * Splits a call that the endpoint does not do in one request into several that it does, which are
   * sent at once. Undefined for one request. Absent if calls of the kind are never split.
   */
  splitCall?(call: Call<K>, endpoint: Endpoint): Call<K>[] | undefined
  /**
   * How a call with more items than an endpoint takes at once is asked for in several requests, all
   * of which have to be answered. Absent if calls of the kind have no items.
   */
  division?: Division<K>
  understanding: Understanding<K>
  costing: Costing<K>
  metering: Metering<K>
  filtering: ContentFiltering<K>
}

/** What an endpoint was asked for. */
export interface Asked<K extends Kind> {
  call: Call<K>
  endpoint: Endpoint
  /** Ends what is fetched; null for a part of a stream, where nothing is. */
  cancellation: Cancellation | null
  /** Waits for a place among the answers that take much memory. */
  enterRoom(): Promise<void>
}

/** What a call asks for, and how much of it an endpoint supports. */
export interface Understanding<K extends Kind> {
  /** Checks the counts that the cost of the call depends on. Throws 400 naming the field. */
  checkCounts(call: Call<K>): void
  /** Returns the texts and media of the call, as lists of blocks, each of which is read as one. */
  readContents(call: Call<K>): Block[][]
  /** Returns the same, or nothing if all of it is known to be plain text. */
  readRichContents(call: Call<K>): Block[][]
  /** Returns the call with other contents: as many lists, in the same order. */
  replaceContents(call: Call<K>, contents: Block[][]): Call<K>
  /** Returns the suffixes of the model's name that change the call, such as `:thinking`. */
  listVariants(model: Model): string[]
  /** Returns the call under that variant ('' for none); the call itself if nothing changes. */
  applyVariant(call: Call<K>, variant: string): Call<K>
  /** Returns true if the endpoint can serve the call, or else a word of `excluded_by` (L.3). */
  checkEndpoint(call: Call<K>, endpoint: Endpoint): string | true
  /** Tells whether the endpoint supports what would be a pity to ignore (K.1): such go first. */
  supportsPreferred(call: Call<K>, endpoint: Endpoint): boolean
  /** Returns the service tier that the call asks for, if endpoints may have it. */
  getServiceTier(call: Call<K>): ServiceTier | undefined
  /** Returns the names of the parameters that `fitToEndpoint` leaves out. */
  listIgnored(call: Call<K>, endpoint: Endpoint): string[]
  /** Returns the call without what the endpoint does not support, and with its service tier. */
  fitToEndpoint(call: Call<K>, endpoint: Endpoint): Call<K>
  /** Returns the call for a protocol that has no field for names. */
  removeNames(call: Call<K>): Call<K>
  /** Returns what the call refers to by URL, whatever its scheme. */
  listMedia(call: Call<K>): MediaReference[]
  /** Returns the call with these URLs replaced. */
  replaceUrls(call: Call<K>, urls: Map<string, string>): Call<K>
  /** Returns what identifies a conversation as it goes on. Null if the kind has none. */
  identifyConversation: ((call: Call<K>) => string) | null
  /** Tells whether tools may be called: only then does it matter how well endpoints call them. */
  offersTools(call: Call<K>): boolean
}

/** What a call may cost, before it is sent. */
export interface Costing<K extends Kind> {
  /** Returns the expected tokens of its prompt: synchronously, and an upper estimate. */
  estimateInput(call: Call<K>): ExpectedInput
  /**
   * Returns the most tokens of its prompt, with what is sent unread and what is only referred to.
   */
  boundInput(call: Call<K>): ExpectedInput
  /** Returns how many prompts the call consists of: each may fill the context. */
  countPrompts(call: Call<K>): number
  /** Returns the units that are expected to be charged. */
  estimateUnits(call: Call<K>): Units
  /** Returns the most units that the endpoint may charge: what is set aside for it. */
  boundUnits(call: Call<K>, endpoint: Endpoint): Units
  /** Returns the most tokens that the endpoint answers with. Null if nothing bounds it. */
  boundOutput(call: Call<K>, endpoint: Endpoint): number | null
  /** Returns the fewest tokens that make the call worthwhile: infinite if it takes no bound. */
  computeLeastOutput(call: Call<K>, endpoint: Endpoint): number
  /** Tells whether the endpoint may give more than `boundOutput` unless the call bounds it. */
  needsOutputLimit(call: Call<K>, endpoint: Endpoint): boolean
  /** Returns the call with the bounds of its units that its hold assumes, where it has none. */
  limitUnits(call: Call<K>, endpoint: Endpoint): Call<K>
  /** Returns the call with no more tokens of output than this. */
  limitOutput(call: Call<K>, tokens: number): Call<K>
  /** Returns what a token of the bound may cost, whatever it is used for. Atto-dollars. */
  priceOutputToken(call: Call<K>, prices: Prices): bigint
  /**
   * Returns what a call says of its pictures, if their price may depend on it: what the endpoint is
   * asked for where there is one. Absent if it draws none.
   */
  describeDrawn?(call: Call<K>, endpoint?: Endpoint): Drawn | undefined
  /** Returns what may be charged on top of prompt, output and units. Atto-dollars. */
  priceSurcharge(call: Call<K>, prices: Prices): bigint
}

/** What an answer cost. */
export interface Metering<K extends Kind> {
  /** Returns a meter for one answer to the call. */
  startMeter(call: Call<K>): Meter<Part<K>>
  /** Counts the tokens of the prompt if the provider did not. */
  countInput(call: Call<K>, count: CountTokens): Promise<ExpectedInput>
  /** Returns how many answers or inputs share one count: each may fill the context. */
  countShares(call: Call<K>): number
  /** Returns the units of the call and of what was delivered, if a provider leaves them out. */
  countUnits(call: Call<K>, delivered: Part<K>[]): Units
  /** Returns how the pictures were drawn that were delivered. Absent if an answer has none. */
  describeDrawn?(call: Call<K>, delivered: Part<K>[]): Drawn | undefined
  /** Estimates the tokens of the media that were delivered if the provider counts none. */
  countOutput(call: Call<K>, delivered: Part<K>[]): number
  /** Estimates the other tokens of what was delivered. Absent if an answer has none. */
  estimateOutput?(
    call: Call<K>,
    delivered: Part<K>[],
    count: CountTokens,
  ): Promise<Partial<Usage['output']>>
}

/** Reads the parts of an answer as they pass: what was delivered, what the provider counted. */
export interface Meter<Part> {
  read(parts: Part[]): void
  readonly usage: Usage | null
  /** Why the answer ended; null until it does. */
  readonly finish: { reason: string; native: string | null; isUnknown?: true } | null
  readonly start: { upstream_id: string | null; service_tier: string | null }
  /** Whether anything that costs was delivered. */
  readonly delivered: boolean
  /** Tokens delivered so far, by a rule of thumb that costs nothing. */
  readonly tokensSoFar: number
  /**
   * Tells whether the answer called tools as they were offered; `broken` if it did not end. Null if
   * that cannot be told.
   */
  hasValidToolCalls(broken: boolean): boolean | null
  /** Estimates the usage: texts by their tokens, the rest by a rule of thumb. */
  estimate(count: CountTokens): Promise<Usage>
}

/** What content filters read and change. */
export interface ContentFiltering<K extends Kind> {
  /** Returns the call with its texts rewritten. Throws 403 for what cannot be read. */
  rewriteTexts(call: Call<K>, rewriteSegment: TextRewrite): Promise<Call<K>>
  /** Returns the call with its texts rewritten that are no contents; absent if it has none. */
  rewriteOther?(call: Call<K>, rewriteSegment: TextRewrite): Promise<Call<K>>
  /** Returns a filter for one answer; absent if answers have no texts. */
  filterAnswer?(call: Call<K>, filtering: Filtering, filterSet: FilterSet): AnswerFilter<Part<K>>
}

/** Filters the parts of one answer. */
export interface AnswerFilter<Part> {
  /** Returns what may go out now. */
  read(parts: Part[]): Promise<Part[]>
  /** Returns a part that belongs to no choice, and that does not wait, as it may go out. */
  readHead?(part: Part): Part
  /** Returns what is left when nothing more will come. */
  end(): Promise<Part[]>
  /** Returns a failure that ends the answer as the client may see it. */
  readFailure?(thrown: unknown): unknown
  /** Why nothing more may go out: 403. */
  readonly blocked: GatewayError | null
}
