import type { Static } from '@sinclair/typebox'
import { invalid } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { toByteSource } from '../../kernel/byte-source.ts'
import { parseDataUrl } from '../../kernel/data-url.ts'
import { omitUndefined } from '../../kernel/json.ts'
import type {
  Recording,
  TranscriptionCall,
  TranscriptionParams,
} from '../../language/transcription.ts'
import type { CallContext } from '../dialect.ts'
import { readProviderOptions } from '../provider-options.ts'
import { buildCallBase } from '../routing.ts'
import type { DialectWorld } from '../world.ts'
import { HEAD_SIZE, openRecording, readFormatName } from './recording.ts'
import type { TranscriptionBody, TranscriptionRequest } from './schema.ts'

/**
 * Translates a checked body into a call, with the file of its form if it came as one. Throws 400
 * for what is no recording, for one that its format is not the name of, and for an empty list of
 * allowed providers.
 */
export function toTranscriptionCall(
  world: DialectWorld,
  actor: Actor,
  body: TranscriptionBody,
  context: CallContext,
): TranscriptionCall {
  const { model, prompt, stream } = body
  // A form has none of these.
  const { provider, user, session_id, trace } = body.input_audio ? body : NO_FIELDS
  const base = { model, ...omitUndefined({ provider, user, session_id, trace, stream }) }
  return {
    ...buildCallBase(world, actor, base, context),
    kind: 'transcription',
    audio: readRecording(body, context),
    ...(prompt == null ? {} : { prompt }),
    params: toParams(body),
    options: readProviderOptions(provider),
  }
}

const NO_FIELDS: Partial<Static<typeof TranscriptionRequest>> = {}

function toParams(body: TranscriptionBody): TranscriptionParams {
  const { response_format, language, temperature, timestamp_granularities } = body
  const { chunking_strategy, include, keywords, languages } = body
  const { known_speaker_names, known_speaker_references } = body
  checkSpeakers(body)
  const given = {
    ...{ language, temperature, timestamp_granularities, chunking_strategy, include, keywords },
    ...{ languages, known_speaker_names, known_speaker_references },
  }
  return {
    response_format: response_format ?? 'json',
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)),
  }
}

/** A speaker has a name and a voice, and that is in the call itself. */
function checkSpeakers({
  known_speaker_names: names,
  known_speaker_references: voices,
}: TranscriptionBody): void {
  if (voices == null) return
  if (names == null || names.length !== voices.length)
    throw invalid('known_speaker_references: expected one for each of known_speaker_names', VOICES)
  const other = voices.findIndex(voice => !/^data:audio\//i.test(voice))
  if (other !== -1)
    throw invalid(`${VOICES}.${other}: expected a data URL of a recording`, `${VOICES}.${other}`)
}

const VOICES = 'known_speaker_references'

function readRecording({ input_audio }: TranscriptionBody, { file }: CallContext): Recording {
  if (file) return openRecording(file.source, file.head, 'file')
  if (!input_audio) throw invalid('input_audio: expected a recording', 'input_audio')
  const format = readFormatName(input_audio.format, 'input_audio.format')
  const bytes = decode(input_audio.data)
  const recording = openRecording(toByteSource(bytes), bytes.subarray(0, HEAD_SIZE), DATA)
  if (recording.format === format) return recording
  throw invalid(
    `input_audio.format: expected ${recording.format}, which the data is, found ${format}`,
    'input_audio.format',
  )
}

const DATA = 'input_audio.data'

function decode(data: string): Buffer {
  try {
    return Buffer.from(parseDataUrl(`data:audio/wav;base64,${data}`).data, 'base64')
  } catch {
    throw invalid(`${DATA}: expected base64`, DATA)
  }
}
