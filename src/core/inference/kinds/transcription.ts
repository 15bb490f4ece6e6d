import type { Endpoint } from '../../catalog/models.ts'
import type { Prices } from '../../catalog/prices.ts'
import { pickLarger } from '../../kernel/money.ts'
import type { Block } from '../../language/message.ts'
import type { TranscriptionCall, TranscriptionPart } from '../../language/transcription.ts'
import type { Units } from '../../language/units.ts'
import {
  getTranscriptionCapabilities,
  listIgnoredTranscription,
  listUnsupportedTranscription,
} from '../../protocols/transcription/capabilities.ts'
import { computeLargestContent, estimateContent } from '../../tokenizers/prompt.ts'
import { defineKind } from './define-kind.ts'
import { TranscriptFilter } from './transcription/filtering.ts'

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
      listUnsupportedTranscription(call, endpoint).length === 0 || TRANSCRIPTION_PARAMETERS,
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
  const { response_format, ...params } = call.params
  const kept = Object.entries(params).filter(([name]) => !ignored.includes(name))
  return { ...call, params: { response_format, ...Object.fromEntries(kept) } }
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
