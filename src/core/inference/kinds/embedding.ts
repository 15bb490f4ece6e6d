import type { EmbeddingCall, EmbeddingInput } from '../../language/call.ts'
import type { EmbeddingPart } from '../../language/part.ts'
import { textUsage, type Usage } from '../../language/usage.ts'
import type { Counter, ExpectedInput } from '../../tokenizers/prompt.ts'
import { contentBound, contentEstimate, largestContent } from '../../tokenizers/prompt.ts'
import type { KindOfWork, Meter } from '../kinds.ts'
import { reworded } from './embedding/passages.ts'
import { namedBy, withUrl } from './text/media.ts'

/** Vectors of texts and of whatever else a model has vectors for. It costs what is read: nothing is written. */
export const embedding: KindOfWork<'embedding'> = {
  apiType: 'embeddings',
  gives: 'embeddings',
  isGivenBy: modalities => modalities.includes('embeddings'),
  variantsOf: () => [],
  asked: call => call,
  serves: () => true,
  suits: () => true,
  offersTools: () => false,
  ignored: () => [],
  conversation: null,
  isMeaningful: part => part.type === 'embedding',
  fitted: call => call,
  withoutNames: call => call,
  named: call => blocksOf(call).flatMap(block => namedBy(block) ?? []),
  withUrls,
  expectedInput,
  largestInput,
  outputBound: () => 0,
  leastOutput: () => 0,
  asksForMore: () => false,
  withOutputBound: call => call,
  outputRate: () => 0n,
  surcharge: () => 0n,
  meter: call => new EmbeddingMeter(call),
  reworded,
}

function withUrls(call: EmbeddingCall, urls: Map<string, string>): EmbeddingCall {
  const moved = (input: EmbeddingInput): EmbeddingInput =>
    input.type === 'content' ? { ...input, blocks: input.blocks.map(block => withUrl(block, urls)) } : input
  return { ...call, inputs: call.inputs.map(moved) }
}

function expectedInput(call: EmbeddingCall): ExpectedInput {
  const { text, ...rest } = contentBound(blocksOf(call))
  return { text: text + tokensOf(call), ...rest }
}

function largestInput(call: EmbeddingCall): ExpectedInput {
  const { text, ...rest } = largestContent(blocksOf(call))
  return { text: text + tokensOf(call), ...rest }
}

class EmbeddingMeter implements Meter<EmbeddingPart> {
  usage: Usage | null = null
  finish: { reason: string; native: string | null } | null = null
  start: { upstream_id: string | null; service_tier: string | null } = { upstream_id: null, service_tier: null }
  readonly #call: EmbeddingCall

  constructor(call: EmbeddingCall) {
    this.#call = call
  }

  readonly soFar = 0
  readonly isSound = () => null

  get delivered(): boolean {
    return this.finish !== null
  }

  read(parts: EmbeddingPart[]): void {
    for (const part of parts) this.#see(part)
  }

  async estimate(count: Counter): Promise<Usage> {
    const { text, ...rest } = await contentEstimate(blocksOf(this.#call), count)
    const usage = textUsage(text + tokensOf(this.#call), 0)
    return { ...usage, input: { ...usage.input, ...rest } }
  }

  // An answer of vectors ends with them.
  #see(part: EmbeddingPart): void {
    if (part.type === 'start') this.start = part
    else if (part.type === 'usage') this.usage = part.usage
    else if (part.type === 'embedding') this.finish ??= { reason: 'stop', native: null }
  }
}

/** What was asked in tokens is counted already. */
const tokensOf = ({ inputs }: EmbeddingCall): number =>
  inputs.reduce((sum, input) => sum + (input.type === 'tokens' ? input.tokens.length : 0), 0)

const blocksOf = ({ inputs }: EmbeddingCall) =>
  inputs.flatMap(input =>
    input.type === 'content' ? input.blocks : input.type === 'text' ? [{ type: 'text' as const, text: input.text }] : [],
  )
