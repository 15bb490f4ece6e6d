import { type Json, omitUndefined, readObjects, readString } from '../../../base/json.ts'
import {
  needsTimes,
  type TranscriptionCall,
  type TranscriptionPart,
  wantsSpeakers,
  wantsWords,
} from '../../../language/transcription.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure } from '../openai-chat/failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import {
  attachRecording,
  divideWords,
  readSeconds,
  readTranscriptionOptions,
  readWord,
  requireAnswer,
  toTranscriptParts,
  transcriptionDefaults,
} from '../transcription.ts'

/**
 * ElevenLabs' transcription: `POST {base_url}/speech-to-text`, a form
 * (https://elevenlabs.io/docs/api-reference/speech-to-text/convert).
 */
export const elevenlabsTranscription: Protocol<'transcription'> = {
  ...transcriptionDefaults,
  buildRequest,
  parseAnswer,
  readFailure,
}

function buildRequest(call: TranscriptionCall, endpoint: Endpoint): UpstreamRequest {
  const { language, temperature } = call.params
  return {
    path: '/speech-to-text',
    body: omitUndefined({
      // Sounds that are no words are left out, as other providers do.
      tag_audio_events: false,
      ...readTranscriptionOptions(call, endpoint),
      model_id: endpoint.upstreamModel,
      language_code: language,
      temperature,
      timestamps_granularity: 'word',
      diarize: wantsSpeakers(call) ? true : undefined,
    }),
    attachment: attachRecording(call, { field: 'file' }),
  }
}

function parseAnswer(
  body: unknown,
  call: TranscriptionCall,
  endpoint: Endpoint,
): TranscriptionPart[] {
  const answer = requireAnswer(body)
  const text = readString(answer.text)
  if (text === null) throw unreadableAnswer()
  const words = readObjects(answer.words)
    .filter(({ type }) => type === undefined || type === 'word')
    .flatMap(({ text: word, start, end, speaker_id }: Json) =>
      readWord(word, start, end, speaker_id),
    )
  const duration =
    readSeconds(answer.audio_duration_secs) ?? call.audio.seconds ?? words.at(-1)?.end
  const language = readString(answer.language_code)
  return toTranscriptParts(
    {
      text,
      ...(language === null ? {} : { language }),
      ...(duration === undefined ? {} : { duration }),
      ...(needsTimes(call) && words.length > 0 ? { segments: divideWords(words) } : {}),
      ...(wantsWords(call) && words.length > 0 ? { words } : {}),
    },
    undefined,
    endpoint,
    readString(answer.transcription_id),
  )
}
