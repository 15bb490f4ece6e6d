import { pickLarger } from '../../base/money.ts'
import { readWavHead } from '../../base/wav.ts'
import type { Block } from '../../language/message.ts'
import {
  countCharacters,
  PCM_RATE,
  PCM_WIDTH,
  type SpeechCall,
  type SpeechParams,
  type SpeechPart,
} from '../../language/speech.ts'
import { createTextUsage, type Units, type Usage } from '../../language/usage.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { Prices } from '../../resources/prices.ts'
import { omitNamed } from '../../translation/protocols/dropped.ts'
import {
  listIgnoredSpeech,
  listUnsupportedSpeech,
  TRANSCRIPT,
} from '../../translation/protocols/speech/capabilities.ts'
import { pickSpeed } from '../../translation/protocols/speech.ts'
import { type CountTokens, estimateContent } from '../../translation/tokenizers/prompt.ts'
import type { Meter } from '../kind.ts'
import { defineKind, requireAll } from './define-kind.ts'

/** Tokens of a second of sound: Google has 25, OpenAI about 21. */
const TOKENS_PER_SECOND = 25

const NOT_STARTED = { upstream_id: null, service_tier: null }
const ENDED = { reason: 'stop', native: null }

/** Reads a sound as it passes, and keeps its length: neither its bytes nor what comes after them. */
class SpeechMeter implements Meter<SpeechPart> {
  start: { upstream_id: string | null; service_tier: string | null } = NOT_STARTED
  finish: { reason: string; native: string | null } | null = null
  delivered = false
  readonly hasValidToolCalls = () => null
  readonly #call: SpeechCall
  readonly #content: Block[]
  #bytes = 0
  #byteRate = 0
  #counted: Usage | null = null

  /** `content` is what the call contains. */
  constructor(call: SpeechCall, content: Block[]) {
    this.#call = call
    this.#content = content
  }

  read(parts: SpeechPart[]): void {
    for (const part of parts) this.#readPart(part)
  }

  get usage(): Usage | null {
    return this.#counted && this.#addUnits(this.#counted)
  }

  get tokensSoFar(): number {
    return this.#countTokens()
  }

  async estimate(count: CountTokens): Promise<Usage> {
    const usage = createTextUsage(0, 0)
    return this.#addUnits({
      ...usage,
      input: { ...usage.input, ...(await estimateContent(this.#content, count)) },
      output: { ...usage.output, audio: this.#countTokens() },
    })
  }

  #readPart(part: SpeechPart): void {
    if (part.type === 'start') this.start = part
    else if (part.type === 'usage') this.#counted = part.usage
    else if (part.type === 'sound-end') this.finish = ENDED
    else if (part.type === 'sound') this.#readSound(part.bytes)
  }

  #readSound(bytes: Uint8Array): void {
    if (!this.delivered) this.#byteRate = findByteRate(this.#call, bytes)
    this.delivered = true
    this.#bytes += bytes.length
  }

  get #seconds(): number {
    return this.#byteRate === 0 ? 0 : this.#bytes / this.#byteRate
  }

  #countTokens(): number {
    return Math.round(this.#seconds * TOKENS_PER_SECOND)
  }

  // The text is charged whole once any of it was said. A count of the provider takes precedence.
  #addUnits(usage: Usage): Usage {
    if (!this.delivered) return usage
    const units: Units = {
      character: countCharacters(this.#call.input),
      second: Math.round(this.#seconds * 1_000),
    }
    return { ...usage, units: { ...units, ...usage.units } }
  }
}

const PCM_BYTES = PCM_RATE * PCM_WIDTH

/** The bytes of a second at the usual quality of providers. */
const USUAL_BYTES = { opus: 4_000, aac: 8_000, flac: 28_000 }

/** Returns the bytes of a second: exact for samples and for an even rate of mp3. */
function findByteRate({ params: { response_format } }: SpeechCall, bytes: Uint8Array): number {
  if (response_format === 'pcm') return PCM_BYTES
  if (response_format === 'mp3') return readMp3Rate(bytes) ?? 16_000
  if (response_format !== 'wav') return USUAL_BYTES[response_format]
  const head = readWavHead(bytes)
  return typeof head === 'object' && head.byteRate > 0 ? head.byteRate : PCM_BYTES
}

/** The kilobits of a second by the index of a frame, in MPEG 1 and in MPEG 2, layer III. */
const MPEG_1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
const MPEG_2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]

/** Reads the rate of the first frame of layer III (ISO 11172-3, 2.4.2.3), after a tag if there is one. */
function readMp3Rate(bytes: Uint8Array): number | undefined {
  const at = isTag(bytes) ? 10 + readTagSize(bytes) : 0
  const [first = 0, second = 0, third = 0] = bytes.subarray(at, at + 3)
  if (first !== 0xff || (second & 0xe6) !== 0xe2) return undefined
  const rates = (second & 0x08) === 0 ? MPEG_2 : MPEG_1
  const kilobits = rates[third >> 4]
  return kilobits ? kilobits * 125 : undefined
}

const isTag = ([i, d, three]: Uint8Array): boolean => i === 0x49 && d === 0x44 && three === 0x33

/** Seven bits of each of four bytes (ID3v2, 3.1). */
const readTagSize = (bytes: Uint8Array): number =>
  bytes.subarray(6, 10).reduce((size, byte) => size * 128 + (byte & 0x7f), 0)

/** Ours, not in the public list: the endpoint cannot speak as the call asks. */
export const SPEECH_PARAMETERS = 'speech_parameters'

/** A text read aloud. The charge is for its characters, for tokens or for the seconds of sound. */
export const speech = defineKind<'speech'>({
  apiType: 'tts',
  outputName: 'speech',
  isMeaningful: ({ type }) => type === 'sound',
  understanding: {
    readContents,
    replaceContents,
    checkEndpoint: (call, endpoint) =>
      listUnsupportedSpeech(call, endpoint).length > 0
        ? SPEECH_PARAMETERS
        : requireAll(call, listIgnoredSpeech(call, endpoint)),
    supportsPreferred: (call, endpoint) => listIgnoredSpeech(call, endpoint).length === 0,
    listIgnored: listIgnoredSpeech,
    fitToEndpoint,
    // The sample goes with the request, and is no medium of a conversation.
    listMedia: () => [],
  },
  costing: {
    estimateUnits: call => countUnits(call, estimateSeconds(call)),
    boundUnits: call => countUnits(call, boundSeconds(call)),
    boundOutput,
    // No provider takes a bound of the tokens of a sound.
    computeLeastOutput: () => Number.POSITIVE_INFINITY,
    priceOutputToken: (_, prices: Prices) => pickLarger(prices.completion, prices.audio_output),
  },
  metering: { startMeter: call => new SpeechMeter(call, readContents(call).flat()) },
})

const toText = (text: string): Block => ({ type: 'text', text })

/** The text, then the words about how to say it, and those of the sample. */
function readContents({ input, instructions, sample }: SpeechCall): Block[][] {
  return [
    [toText(input)],
    ...(instructions === undefined ? [] : [[toText(instructions)]]),
    ...(sample?.transcript === undefined ? [] : [[toText(sample.transcript)]]),
  ]
}

function replaceContents(call: SpeechCall, contents: Block[][]): SpeechCall {
  const texts = contents.map(([block]) => (block?.type === 'text' ? block.text : ''))
  const [input = '', ...more] = texts
  const { instructions, sample } = call
  return {
    ...call,
    input,
    ...(instructions === undefined ? {} : { instructions: more.shift() ?? '' }),
    ...(sample?.transcript === undefined
      ? {}
      : { sample: { ...sample, transcript: more.shift() ?? '' } }),
  }
}

// Where a provider has one speed, the text is read at that (wire reference B.3), and where it has
// some, at the nearest.
function fitToEndpoint(call: SpeechCall, endpoint: Endpoint): SpeechCall {
  const ignored = listIgnoredSpeech(call, endpoint)
  if (ignored.length === 0) return call
  const { instructions, sample, ...rest } = call
  const isKept = (name: string) => !ignored.includes(name)
  return {
    ...rest,
    ...(instructions !== undefined && isKept('instructions') ? { instructions } : {}),
    ...(sample ? { sample: isKept(TRANSCRIPT) ? sample : omitNamed(sample, ['transcript']) } : {}),
    params: fitSpeed(omitNamed(call.params, ignored), call, endpoint),
  }
}

function fitSpeed(params: SpeechParams, call: SpeechCall, endpoint: Endpoint): SpeechParams {
  const { speed } = call.params
  const nearest = pickSpeed(call, endpoint)
  const isFitted = nearest !== undefined && nearest !== speed
  return isFitted ? { ...params, speed: nearest } : params
}

/** Most voices say 15 letters in a second; scripts with longer characters have fewer of them. */
const BYTES_PER_SECOND = 15

/** Digits and signs are said as words. */
const FEWEST_BYTES_PER_SECOND = 4

/** Silence around the words. */
const SPARE_SECONDS = 5

const estimateSeconds = (call: SpeechCall): number => computeSeconds(call, BYTES_PER_SECOND)

const boundSeconds = (call: SpeechCall): number =>
  SPARE_SECONDS + computeSeconds(call, FEWEST_BYTES_PER_SECOND)

const computeSeconds = ({ input, params: { speed = 1 } }: SpeechCall, rate: number): number =>
  Buffer.byteLength(input) / rate / Math.min(speed, 1)

/** Seconds are counted in thousandths. */
const countUnits = ({ input }: SpeechCall, seconds: number): Units => ({
  character: countCharacters(input),
  second: Math.ceil(seconds * 1_000),
})

function boundOutput(call: SpeechCall, { max_completion_tokens }: Endpoint): number {
  const most = Math.ceil(boundSeconds(call) * TOKENS_PER_SECOND)
  return max_completion_tokens === null ? most : Math.min(most, max_completion_tokens)
}
