import { type Json, readObject, readObjects, readString } from '../../../base/json.ts'
import {
  needsTimes,
  type TranscriptionCall,
  type TranscriptionPart,
  type TranscriptSegment,
  wantsSpeakers,
  wantsWords,
} from '../../../language/transcription.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { readFailure } from '../deepgram/failure.ts'
import { unreadableAnswer } from '../failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import {
  attachRecording,
  readSeconds,
  readSpeaker,
  readTranscriptionOptions,
  readWord,
  requireAnswer,
  toTranscriptParts,
  transcriptionDefaults,
} from '../transcription.ts'

/**
 * Deepgram's transcription: `POST {base_url}/listen`, whose body is the recording
 * (https://developers.deepgram.com/reference/speech-to-text/listen-pre-recorded).
 */
export const deepgramTranscription: Protocol<'transcription'> = {
  ...transcriptionDefaults,
  buildRequest,
  parseAnswer,
  readFailure,
}

function buildRequest(call: TranscriptionCall, endpoint: Endpoint): UpstreamRequest {
  const { language } = call.params
  const query = new URLSearchParams({
    model: endpoint.upstreamModel,
    smart_format: 'true',
    ...(language === undefined ? { detect_language: 'true' } : { language }),
    ...(needsTimes(call) ? { utterances: 'true' } : {}),
    ...(wantsSpeakers(call) ? { diarize: 'true' } : {}),
  })
  for (const [name, value] of Object.entries(readTranscriptionOptions(call, endpoint)))
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one))
  return { path: `/listen?${query}`, body: {}, attachment: attachRecording(call, 'body') }
}

function parseAnswer(
  body: unknown,
  call: TranscriptionCall,
  endpoint: Endpoint,
): TranscriptionPart[] {
  const answer = requireAnswer(body)
  const results = readObject(answer, 'results')
  const [channel = {}] = readObjects(results.channels)
  const [best = {}] = readObjects(channel.alternatives)
  const text = readString(best.transcript)
  if (text === null) throw unreadableAnswer()
  const metadata = readObject(answer, 'metadata')
  const duration = readSeconds(metadata.duration)
  const language = call.params.language ?? readString(channel.detected_language)
  const segments = readObjects(results.utterances).flatMap(readUtterance)
  const words = wantsWords(call) ? readObjects(best.words).flatMap(readDeepgramWord) : []
  return toTranscriptParts(
    {
      text,
      ...(language === null ? {} : { language }),
      ...(duration === undefined ? {} : { duration }),
      ...(segments.length > 0 ? { segments } : {}),
      ...(words.length > 0 ? { words } : {}),
    },
    undefined,
    endpoint,
    readString(metadata.request_id),
  )
}

const readDeepgramWord = ({ punctuated_word, word, start, end, speaker }: Json) =>
  readWord(punctuated_word ?? word, start, end, speaker)

function readUtterance({ transcript, start, end, speaker }: Json): TranscriptSegment[] {
  const [one] = readWord(transcript, start, end)
  return one ? [{ text: one.word, start: one.start, end: one.end, ...readSpeaker(speaker) }] : []
}
