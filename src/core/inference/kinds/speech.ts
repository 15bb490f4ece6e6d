import type { Endpoint } from '../../catalog/models.ts'
import type { Prices } from '../../catalog/prices.ts'
import { pickLarger } from '../../kernel/money.ts'
import type { Block } from '../../language/message.ts'
import { countCharacters, type SpeechCall } from '../../language/speech.ts'
import type { Units } from '../../language/units.ts'
import {
  getSpeechCapabilities,
  listUnsupportedSpeech,
} from '../../protocols/speech/capabilities.ts'
import { defineKind } from './define-kind.ts'
import { SpeechMeter, TOKENS_PER_SECOND } from './speech/meter.ts'

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
      listUnsupportedSpeech(call, endpoint).length === 0 || SPEECH_PARAMETERS,
    listIgnored: (call, endpoint) => (ignoresSpeed(call, endpoint) ? ['speed'] : []),
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

// Where a provider has one speed, the text is read at that (wire reference B.3).
const ignoresSpeed = ({ params }: SpeechCall, endpoint: Endpoint): boolean =>
  params.speed !== undefined && getSpeechCapabilities(endpoint).speed === null

function fitToEndpoint(call: SpeechCall, endpoint: Endpoint): SpeechCall {
  if (!ignoresSpeed(call, endpoint)) return call
  const { speed: _, ...params } = call.params
  return { ...call, params }
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
