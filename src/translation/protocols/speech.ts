import type { Json } from '../../base/json.ts'
import type { SpeechCall } from '../../language/speech.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { unreadableAnswer } from './failure.ts'
import { readPassthrough } from './passthrough.ts'
import type { Protocol } from './protocol.ts'
import { getSpeechCapabilities } from './speech/capabilities.ts'

/** What protocols share whose sound comes whole or as bytes: events are an error. */
export const speechDefaults = {
  framing: 'sse',
  acceptsNames: true,
  urlMedia: [],
  createReader: () => {
    throw unreadableAnswer()
  },
} satisfies Partial<Protocol<'speech'>>

/** Returns the voice to speak with: that of the call, or the usual one of the provider. */
export const pickVoice = ({ params, sample }: SpeechCall, endpoint: Endpoint): string | undefined =>
  params.voice ?? (sample ? undefined : (getSpeechCapabilities(endpoint).voice ?? undefined))

/** Returns the speed of the call, or the nearest that the endpoint speaks. */
export function pickSpeed({ params: { speed } }: SpeechCall, endpoint: Endpoint) {
  const range = getSpeechCapabilities(endpoint).speed
  if (speed === undefined || range === null) return undefined
  return Math.min(Math.max(speed, range.min), range.max)
}

/**
 * Returns the parameters that the call names for this provider alone. Throws 400 for one that the
 * endpoint is not known to take.
 */
export const readSpeechOptions = ({ options }: SpeechCall, endpoint: Endpoint): Json =>
  readPassthrough(options, endpoint, getSpeechCapabilities(endpoint).passthrough)
