import { GatewayError } from '../../base/errors.ts'
import { pickLarger } from '../../base/money.ts'
import { runInTurns } from '../../base/turns.ts'
import type { Block } from '../../language/message.ts'
import type {
  Transcript,
  TranscriptionCall,
  TranscriptionPart,
} from '../../language/transcription.ts'
import type { Units } from '../../language/usage.ts'
import type { FilterSet } from '../../limits/filters/filter-set.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { Prices } from '../../resources/prices.ts'
import { omitNamed } from '../../translation/protocols/dropped.ts'
import {
  getTranscriptionCapabilities,
  listIgnoredTranscription,
  listUnsupportedTranscription,
} from '../../translation/protocols/transcription/capabilities.ts'
import { computeLargestContent, estimateContent } from '../../translation/tokenizers/prompt.ts'
import { answerBlocked, type Filtering, filterFailure } from '../filtering.ts'
import type { AnswerFilter } from '../kind.ts'
import { defineKind, requireAll } from './define-kind.ts'

/**
 * Filters what was said: the text, its segments and its words, each as one text, so that a number
 * that is spread over several words is found.
 */
class TranscriptFilter implements AnswerFilter<TranscriptionPart> {
  readonly #filtering: Filtering
  readonly #filterSet: FilterSet
  blocked: GatewayError | null = null

  constructor(filtering: Filtering, filterSet: FilterSet) {
    this.#filtering = filtering
    this.#filterSet = filterSet
  }

  async read(parts: TranscriptionPart[]): Promise<TranscriptionPart[]> {
    const out: TranscriptionPart[] = []
    for (const part of parts) {
      // What is heard goes out once all of it is read, and without the tokens that it is made of.
      if (part.type === 'transcript-delta') continue
      if (part.type !== 'transcript') out.push(part)
      else {
        const { logprobs: _, ...transcript } = part
        out.push({ ...transcript, ...(await this.#filter(part)) })
      }
    }
    return this.blocked ? out.filter(({ type }) => type !== 'transcript') : out
  }

  end = async (): Promise<TranscriptionPart[]> => []

  readFailure(thrown: unknown): GatewayError {
    return filterFailure(this.#filtering, GatewayError.from(thrown))
  }

  async #filter({ text, segments, words }: Transcript): Promise<Partial<Transcript>> {
    const [redacted = ''] = await this.#redact([text])
    const spoken = segments && (await this.#redact(segments.map(segment => segment.text)))
    const single = words && (await this.#redact(words.map(({ word }) => `${word} `)))
    return {
      text: redacted,
      ...(segments
        ? { segments: segments.map((one, i) => ({ ...one, text: spoken?.[i] ?? '' })) }
        : {}),
      ...(words
        ? { words: words.map((one, i) => ({ ...one, word: single?.[i]?.replace(/ $/, '') ?? '' })) }
        : {}),
    }
  }

  async #redact(pieces: string[]): Promise<string[]> {
    const { redactSegment } = await import('../../limits/filters/text-segment.ts')
    const segment = { role: 'assistant' as const, pieces, isJson: false }
    const { pieces: redacted, matches } = await runInTurns(redactSegment(segment, this.#filterSet))
    // The same words come up to three times, and count once.
    const fresh = matches.filter(({ rule }) => !this.#filtering.hasFound(rule, 'output'))
    for (const { rule } of fresh) this.#filtering.noteMatch(rule, 'output')
    const blocking = matches.find(({ rule }) => rule.action === 'block')
    if (blocking) this.blocked ??= answerBlocked(blocking.rule)
    return redacted
  }
}

/** Ours, not in the public list: the endpoint cannot transcribe as the call asks. */
export const TRANSCRIPTION_PARAMETERS = 'transcription_parameters'

/** The text of a recording. The charge is for its seconds, or for tokens. */
export const transcription = defineKind<'transcription'>({
  apiType: 'stt',
  outputName: 'transcription',
  understanding: {
    readContents,
    replaceContents,
    checkEndpoint: (call, endpoint) =>
      listUnsupportedTranscription(call, endpoint).length > 0
        ? TRANSCRIPTION_PARAMETERS
        : requireAll(call, listIgnoredTranscription(call, endpoint)),
    supportsPreferred: (call, endpoint) => listIgnoredTranscription(call, endpoint).length === 0,
    listIgnored: listIgnoredTranscription,
    fitToEndpoint,
  },
  costing: {
    estimateInput: call => countInput(call, estimateSeconds(call)),
    boundInput,
    estimateUnits: call => countUnits(estimateSeconds(call)),
    boundUnits: (call, endpoint) =>
      countUnits(Math.max(boundSeconds(call), getTranscriptionCapabilities(endpoint).leastSeconds)),
    boundOutput,
    // No provider takes a bound of what was said.
    computeLeastOutput: () => Number.POSITIVE_INFINITY,
    priceOutputToken: (_, prices: Prices) => pickLarger(prices.completion, prices.reasoning),
  },
  metering: {
    async countInput(call, count) {
      const { text } = await estimateContent(readContents(call).flat(), count)
      return { text, audio: countTokens(estimateSeconds(call)), video: 0 }
    },
    countUnits: countDelivered,
    estimateOutput: async (_, delivered, count) => ({ text: await count(listTexts(delivered)) }),
  },
  filtering: {
    filterAnswer: (_, filtering, filterSet) => new TranscriptFilter(filtering, filterSet),
  },
})

function readContents({ prompt }: TranscriptionCall): Block[][] {
  return prompt === undefined ? [] : [[{ type: 'text', text: prompt }]]
}

function replaceContents(call: TranscriptionCall, [blocks = []]: Block[][]): TranscriptionCall {
  if (call.prompt === undefined) return call
  const text = blocks.find(block => block.type === 'text')
  return { ...call, prompt: text?.text ?? '' }
}

// Where a provider has none of them, it writes down what it hears, and that is all.
function fitToEndpoint(call: TranscriptionCall, endpoint: Endpoint): TranscriptionCall {
  const ignored = listIgnoredTranscription(call, endpoint)
  if (ignored.length === 0) return call
  const { prompt, ...rest } = call
  return {
    ...rest,
    ...(prompt === undefined || ignored.includes('prompt') ? {} : { prompt }),
    params: omitNamed(call.params, ignored),
  }
}

/** The bytes of a second of compressed speech: usual ones, and the fewest that can be understood. */
const USUAL_BYTES = 16_000
const FEWEST_BYTES = 2_000

const estimateSeconds = ({ audio }: TranscriptionCall): number =>
  audio.seconds ?? audio.size / USUAL_BYTES

const boundSeconds = ({ audio }: TranscriptionCall): number =>
  audio.seconds ?? audio.size / FEWEST_BYTES

/** Google's tokens of a second of sound; others have fewer. */
const TOKENS_PER_SECOND = 32

const countTokens = (seconds: number): number => Math.ceil(seconds * TOKENS_PER_SECOND)

const countInput = (call: TranscriptionCall, seconds: number) => ({
  text: computeLargestContent(readContents(call).flat()).text,
  audio: countTokens(seconds),
  video: 0,
})

/** A model that talks is told what to do with the recording. */
const REQUEST_TOKENS = 64

function boundInput(call: TranscriptionCall) {
  const input = countInput(call, boundSeconds(call))
  return { ...input, text: input.text + REQUEST_TOKENS }
}

/** Seconds are counted in thousandths. */
const countUnits = (seconds: number): Units => ({ input_second: Math.ceil(seconds * 1_000) })

/** Counts the seconds as the provider has them, or as the recording says. */
function countDelivered(call: TranscriptionCall, delivered: TranscriptionPart[]): Units {
  const transcript = delivered.find(part => part.type === 'transcript')
  if (!transcript) return {}
  const { duration, words, segments } = transcript
  const last = words?.at(-1)?.end ?? segments?.at(-1)?.end
  return countUnits(duration ?? call.audio.seconds ?? last ?? estimateSeconds(call))
}

/** Lists what was heard: all of it, or as much as came before an answer broke off. */
function listTexts(delivered: TranscriptionPart[]): string[] {
  const whole = delivered.flatMap(part => (part.type === 'transcript' ? [part.text] : []))
  if (whole.length > 0) return whole
  return [delivered.map(part => (part.type === 'transcript-delta' ? part.text : '')).join('')]
}

/** Fast speech has five words in a second, and some scripts two tokens for each. */
const SPOKEN_TOKENS = 10

/** What is there even if nothing was said. */
const FEWEST_TOKENS = 64

function boundOutput(call: TranscriptionCall, endpoint: Endpoint): number {
  const { max_completion_tokens, output_modalities } = endpoint
  const said = Math.ceil(boundSeconds(call) * SPOKEN_TOKENS) + FEWEST_TOKENS
  // A model that talks too may think before it writes.
  const most = output_modalities.includes('text') ? 2 * said : said
  return max_completion_tokens === null ? most : Math.min(most, max_completion_tokens)
}
