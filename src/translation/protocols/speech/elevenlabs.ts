import { omitUndefined, readObject } from '../../../base/json.ts'
import type { SpeechCall, SpeechFormat } from '../../../language/speech.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure } from '../openai-chat/failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { pickSpeed, pickVoice, readSpeechOptions, speechDefaults } from '../speech.ts'
import { Sound, SoundReader } from './sound.ts'

/**
 * ElevenLabs' speech: `POST {base_url}/text-to-speech/{voice}/stream`, which answers with bytes
 * (https://elevenlabs.io/docs/api-reference/text-to-speech/stream).
 */
export const elevenlabsSpeech: Protocol<'speech'> = {
  ...speechDefaults,
  buildRequest,
  parseAnswer: () => {
    throw unreadableAnswer()
  },
  createByteReader: ({ params }) => new SoundReader(createSound(params.response_format)),
  readFailure,
}

const createSound = (wanted: SpeechFormat): Sound =>
  new Sound(wanted === 'wav' ? 'pcm' : wanted, wanted)

const OUTPUT_FORMATS: Partial<Record<SpeechFormat, string>> = { mp3: 'mp3_44100_128' }
const SAMPLES = 'pcm_24000'

function buildRequest(call: SpeechCall, endpoint: Endpoint): UpstreamRequest {
  const voice = encodeURIComponent(pickVoice(call, endpoint) ?? '')
  const format = OUTPUT_FORMATS[call.params.response_format] ?? SAMPLES
  const options = readSpeechOptions(call, endpoint)
  const speed = pickSpeed(call, endpoint)
  const voice_settings =
    speed === undefined
      ? options.voice_settings
      : { ...readObject(options, 'voice_settings'), speed }
  return {
    path: `/text-to-speech/${voice}/stream?output_format=${format}`,
    body: omitUndefined({
      ...options,
      text: call.input,
      model_id: endpoint.upstreamModel,
      voice_settings,
    }),
  }
}
