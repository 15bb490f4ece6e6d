import { GatewayError } from '../../../base/errors.ts'
import { isObject, omitUndefined, readObject, readObjects, readString } from '../../../base/json.ts'
import {
  RECORDING_FORMATS,
  type TranscriptionCall,
  type TranscriptionPart,
} from '../../../language/transcription.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure, readStreamFailure } from '../gemini/failure.ts'
import { readUsage } from '../gemini/usage.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import {
  attachRecording,
  readTranscriptionOptions,
  requireAnswer,
  toTranscriptParts,
  transcriptionDefaults,
} from '../transcription.ts'

/**
 * Google's models that listen: the recording and a request for its words are the only message
 * (https://ai.google.dev/gemini-api/docs/audio).
 */
export const geminiTranscription: Protocol<'transcription'> = {
  ...transcriptionDefaults,
  buildRequest,
  parseAnswer,
  readFailure,
}

const MARKER = '@@recording@@'

const REQUEST =
  'Write down what is said in this recording, word for word, in its own language, and nothing else. ' +
  'If nobody says anything, answer with nothing.'

function buildRequest(call: TranscriptionCall, endpoint: Endpoint): UpstreamRequest {
  readTranscriptionOptions(call, endpoint)
  const { language, temperature } = call.params
  const hints = [
    REQUEST,
    ...(language === undefined ? [] : [`Its language is ${language}.`]),
    ...(call.prompt === undefined ? [] : [`These words may be said: ${call.prompt}`]),
  ]
  const inlineData = { mimeType: RECORDING_FORMATS[call.audio.format], data: MARKER }
  return {
    path: `/models/${encodeURIComponent(endpoint.upstreamModel)}:generateContent`,
    body: {
      contents: [{ role: 'user', parts: [{ text: hints.join(' ') }, { inlineData }] }],
      generationConfig: omitUndefined({ temperature: temperature ?? 0 }),
    },
    attachment: attachRecording(call, { marker: MARKER }),
  }
}

function parseAnswer(body: unknown, _: TranscriptionCall, endpoint: Endpoint): TranscriptionPart[] {
  const answer = requireAnswer(body)
  if (isObject(answer.error)) throw readStreamFailure(answer.error)
  const [candidate] = readObjects(answer.candidates)
  const reason = readString(candidate?.finishReason) ?? ''
  if (readObject(answer, 'promptFeedback').blockReason || REFUSALS.has(reason))
    throw new GatewayError('content_policy_violation', 'The provider refused to transcribe this')
  // Silence has no parts; what was cut off is no transcript.
  if (!candidate || reason !== 'STOP') throw unreadableAnswer()
  const parts = readObjects(readObject(candidate, 'content').parts)
  const said = parts.filter(({ thought }) => thought !== true)
  const text = said.map(part => readString(part.text) ?? '').join('')
  return toTranscriptParts(
    { text: text.trim() },
    readUsage(answer.usageMetadata),
    endpoint,
    readString(answer.responseId),
  )
}

/** The ends of an answer that its provider refuses to give, of sounds too. */
export const REFUSALS = new Set(['SAFETY', 'PROHIBITED_CONTENT', 'BLOCKLIST', 'SPII', 'RECITATION'])
