import type { Endpoint, Model } from '../catalog/models.ts'
import type { Prices } from '../catalog/prices.ts'
import type { GatewayError } from '../errors.ts'
import type { Reword } from '../language/passage.ts'
import type { Usage } from '../language/usage.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Screen } from '../policy/filters/screen.ts'
import type { Counter, ExpectedInput } from '../tokenizers/prompt.ts'
import type { Filtering } from './filters/filtering.ts'
import { embedding } from './kinds/embedding.ts'
import { text } from './kinds/text.ts'
import type { Named } from './media.ts'

/** Watches the parts of one answer as they pass: what the provider counted, and what was delivered in case it counts nothing. */
export interface Meter<Part> {
  read(parts: Part[]): void
  readonly usage: Usage | null
  /** Why the answer ended; null until it does. */
  readonly finish: { reason: string; native: string | null } | null
  readonly start: { upstream_id: string | null; service_tier: string | null }
  /** Whether anything that costs was delivered. */
  readonly delivered: boolean
  /** Tokens delivered by now, by a rule of thumb that costs nothing. */
  readonly soFar: number
  /** Whether the answer called tools as they were offered; `broken` is one that did not end. Null where it does not tell. */
  isSound(broken: boolean): boolean | null
  /** What was asked and delivered, as the tokens of the texts in it and a rule of thumb for the rest. */
  estimate(count: Counter): Promise<Usage>
}

/** What differs between the kinds of work. Everything else in the life of a call is the same for all. */
export interface KindOfWork<K extends Kind> {
  /** Its `api_type` on the record. */
  apiType: string
  /** What it gives, in a word for people. */
  gives: string
  /** Whether a model with these output modalities does this kind of work. */
  isGivenBy(outputModalities: string[]): boolean
  /** What may stand behind the model's name to change what is asked of it, `:thinking` for one. */
  variantsOf(model: Model): string[]
  /** The call as a model is asked by such a variant of its name, or by its own: the call itself where that changes nothing. */
  asked(call: Work[K]['call'], variant: string): Work[K]['call']
  /** Says of an endpoint that it can serve the call, or what of the call it cannot: the word of `excluded_by` (wire reference L.3). */
  serves(call: Work[K]['call'], endpoint: Endpoint): string | true
  /** Whether the endpoint heeds those parameters of the call that it would be a pity to ignore (wire reference K.1): such ones go first. */
  suits(call: Work[K]['call'], endpoint: Endpoint): boolean
  /** Whether the call offers tools that may be called: how well endpoints do that then matters. */
  offersTools(call: Work[K]['call']): boolean
  /** Those parameters of the call that the endpoint does not get: `fitted` leaves them out. */
  ignored(call: Work[K]['call'], endpoint: Endpoint): string[]
  /** What tells the call's conversation from others as it goes on; null where there are none. */
  conversation: ((call: Work[K]['call']) => string) | null
  /** Whether a caller can use the part: from the first of these on no other endpoint may be tried. */
  isMeaningful(part: Work[K]['part']): boolean
  /** The call without what the endpoint does not support. */
  fitted(call: Work[K]['call'], endpoint: Endpoint): Work[K]['call']
  /** The call for a protocol that has no field for names. */
  withoutNames(call: Work[K]['call']): Work[K]['call']
  /** What the call names by URL. */
  named(call: Work[K]['call']): Named[]
  /** The call with other URLs for these. */
  withUrls(call: Work[K]['call'], urls: Map<string, string>): Work[K]['call']
  /** The tokens that the prompt is expected to be, at once and rather too many. */
  expectedInput(call: Work[K]['call']): ExpectedInput
  /** The most that it may be, with what travels unread and what is only named: what is set aside for it. */
  largestInput(call: Work[K]['call']): ExpectedInput
  /** The tokens of output beyond which the endpoint does not go for this call. Null: nobody bounds it. */
  outputBound(call: Work[K]['call'], endpoint: Endpoint): number | null
  /** The least output with which the call is worth making; all of it where it cannot be bounded. */
  leastOutput(call: Work[K]['call'], endpoint: Endpoint): number
  /** Whether the call lets the endpoint give more than its `outputBound`, unless it is told. */
  asksForMore(call: Work[K]['call'], endpoint: Endpoint): boolean
  /** The call with no more output than this. */
  withOutputBound(call: Work[K]['call'], tokens: number): Work[K]['call']
  /** Atto-dollars for each token of the output bound, whatever kind of output it becomes. */
  outputRate(call: Work[K]['call'], prices: Prices): bigint
  /** Atto-dollars for what is neither its prompt nor its output: searches, and predictions that do not come true. */
  surcharge(call: Work[K]['call'], prices: Prices): bigint
  meter(call: Work[K]['call']): Meter<Work[K]['part']>
  /** The call with other words in the place of its texts: what content filters look at. Throws 403 for what they cannot read. */
  reworded(call: Work[K]['call'], reword: Reword): Promise<Work[K]['call']>
  /** Looks at what is answered, where there are words in it. */
  answerFilter?(call: Work[K]['call'], filtering: Filtering, screen: Screen): AnswerFilter<Work[K]['part']>
}

/** What content filters leave of the parts of one answer. */
export interface AnswerFilter<Part> {
  /** What may go out now. */
  read(parts: Part[]): Promise<Part[]>
  /** What is left when nothing more will come. */
  end(): Promise<Part[]>
  /** Why nothing more may go out: 403. */
  readonly blocked: GatewayError | null
}

/** Every kind of work. */
export const kinds: { [K in Kind]: KindOfWork<K> } = { text, embedding }
