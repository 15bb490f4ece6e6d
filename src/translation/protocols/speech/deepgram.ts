import type { SpeechCall, SpeechFormat } from '../../../language/speech.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { readFailure } from '../deepgram/failure.ts'
import { unreadableAnswer } from '../failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { readSpeechOptions, speechDefaults } from '../speech.ts'
import { Sound, SoundReader } from './sound.ts'

/**
 * Deepgram's speech: `POST {base_url}/speak`, which answers with bytes
 * (https://developers.deepgram.com/reference/text-to-speech/speak-request).
 */
export const deepgramSpeech: Protocol<'speech'> = {
  ...speechDefaults,
  buildRequest,
  parseAnswer: () => {
    throw unreadableAnswer()
  },
  createByteReader: ({ params: { response_format } }) =>
    new SoundReader(new Sound(response_format, response_format)),
  readFailure,
}

const ENCODINGS: Record<SpeechFormat, string> = {
  pcm: 'encoding=linear16&sample_rate=24000&container=none',
  wav: 'encoding=linear16&sample_rate=24000&container=wav',
  mp3: 'encoding=mp3',
  opus: 'encoding=opus&container=ogg',
  flac: 'encoding=flac',
  aac: 'encoding=aac',
}

function buildRequest(call: SpeechCall, endpoint: Endpoint): UpstreamRequest {
  readSpeechOptions(call, endpoint)
  const model = encodeURIComponent(pickModel(call, endpoint))
  return {
    path: `/speak?model=${model}&${ENCODINGS[call.params.response_format]}`,
    body: { text: call.input },
  }
}

/** The voices of a family that has no voice of its own in its name. */
const USUAL_VOICES: Record<string, string> = { aura: 'asteria-en', 'aura-2': 'thalia-en' }

/** A model is a family, a voice and a language: `aura-2-thalia-en`. A voice may be all of it. */
function pickModel({ params: { voice } }: SpeechCall, { upstreamModel }: Endpoint): string {
  const family = /^aura(?:-\d+)?(?=-|$)/.exec(upstreamModel)?.[0] ?? upstreamModel
  if (voice === undefined)
    return family === upstreamModel && USUAL_VOICES[family]
      ? `${family}-${USUAL_VOICES[family]}`
      : upstreamModel
  if (voice.startsWith(`${family}-`)) return voice
  return `${family}-${/-[a-z]{2}$/.test(voice) ? voice : `${voice}-en`}`
}
