import { GatewayError } from '../../../base/errors.ts'
import { isObject, type Json, readObject, readObjects, readString } from '../../../base/json.ts'
import { PCM_RATE, type SpeechCall, type SpeechPart } from '../../../language/speech.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure, readStreamFailure } from '../gemini/failure.ts'
import { readUsage } from '../gemini/usage.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { pickVoice, readSpeechOptions, speechDefaults } from '../speech.ts'
import { REFUSALS } from '../transcription/gemini.ts'
import { Sound, toSoundParts } from './sound.ts'

/**
 * Google's models that speak: a text is the only message, and the answer has samples
 * (https://ai.google.dev/gemini-api/docs/speech-generation).
 */
export const geminiSpeech: Protocol<'speech'> = {
  ...speechDefaults,
  buildRequest,
  parseAnswer,
  readFailure,
}

function buildRequest(call: SpeechCall, endpoint: Endpoint): UpstreamRequest {
  const text =
    call.instructions === undefined ? call.input : `${call.instructions}:\n\n${call.input}`
  const voiceName = pickVoice(call, endpoint)
  return {
    path: `/models/${encodeURIComponent(endpoint.upstreamModel)}:generateContent`,
    body: {
      contents: [{ role: 'user', parts: [{ text }] }],
      generationConfig: {
        responseModalities: ['AUDIO'],
        speechConfig: {
          ...readSpeechOptions(call, endpoint),
          voiceConfig: { prebuiltVoiceConfig: { voiceName } },
        },
      },
    },
  }
}

function parseAnswer(body: unknown, { params }: SpeechCall): SpeechPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (isObject(body.error)) throw readStreamFailure(body.error)
  const [candidate = {}] = readObjects(body.candidates)
  checkEnd(body, candidate)
  const parts = readObjects(readObject(candidate, 'content').parts)
  const sounds = parts.map(part => readObject(part, 'inlineData'))
  const pieces = sounds.flatMap(({ data, mimeType }) =>
    typeof data === 'string' && data !== '' ? [readSamples(data, mimeType)] : [],
  )
  const joined = Buffer.concat(pieces).toString('base64')
  const usage = readUsage(body.usageMetadata)
  return [
    ...toSoundParts(joined, new Sound('pcm', params.response_format)),
    ...(usage ? [{ type: 'usage' as const, usage: countAsSound(usage) }] : []),
  ]
}

/**
 * Throws `content_policy_violation` for a text that is not read, and `provider_unavailable` for a sound
 * that is cut off: it may end within a word.
 */
function checkEnd(body: Json, { finishReason }: Json): void {
  const reason = readString(finishReason)
  if (readObject(body, 'promptFeedback').blockReason || (reason !== null && REFUSALS.has(reason)))
    throw new GatewayError('content_policy_violation', 'The provider refused to read this aloud')
  if (reason !== null && reason !== 'STOP') throw unreadableAnswer()
}

/** Returns the samples. Throws `provider_unavailable` for those that `pcm` does not have. */
function readSamples(data: string, mimeType: unknown): Buffer {
  const type = readString(mimeType) ?? ''
  const rate = /rate=(\d+)/.exec(type)?.[1] ?? String(PCM_RATE)
  if (!/^audio\/(l16|pcm)\b/i.test(type) || rate !== String(PCM_RATE)) throw unreadableAnswer()
  return Buffer.from(data, 'base64')
}

type Counted = NonNullable<ReturnType<typeof readUsage>>

// The answer has nothing else, whether or not its details say so.
const countAsSound = (usage: Counted): Counted => ({
  ...usage,
  output: { ...usage.output, text: 0, audio: usage.output.audio + usage.output.text },
})
