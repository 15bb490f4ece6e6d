import { invalid } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { parseDataUrl } from '../../kernel/data-url.ts'
import { omitUndefined } from '../../kernel/json.ts'
import type { SpeechCall, SpeechParams, VoiceSample } from '../../language/speech.ts'
import type { CallContext } from '../dialect.ts'
import { readProviderOptions } from '../provider-options.ts'
import { buildCallBase } from '../routing.ts'
import type { DialectWorld } from '../world.ts'
import type { SpeechRequest } from './schema.ts'

/**
 * Translates a checked body into a call. Throws 400 for references that are no recording with at
 * most one transcript, for a recording beside a named voice, and for an empty list of allowed
 * providers.
 */
export function toSpeechCall(
  world: DialectWorld,
  actor: Actor,
  body: SpeechRequest,
  context: CallContext,
): SpeechCall {
  const { model, provider, user, session_id, trace, instructions } = body
  const base = { model, ...omitUndefined({ provider, user, session_id, trace }) }
  const sample = readSample(body)
  return {
    ...buildCallBase(world, actor, base, context),
    kind: 'speech',
    input: body.input,
    ...(instructions == null ? {} : { instructions }),
    ...(sample ? { sample } : {}),
    params: toParams(body),
    options: readProviderOptions(provider),
  }
}

function toParams({ response_format, speed, voice }: SpeechRequest): SpeechParams {
  return {
    response_format: response_format ?? 'pcm',
    // OpenAI has voices of its users by their id.
    ...(voice == null ? {} : { voice: typeof voice === 'string' ? voice : voice.id }),
    ...(speed == null ? {} : { speed }),
  }
}

const FIELD = 'input_references'

function readSample({ input_references, voice }: SpeechRequest): VoiceSample | undefined {
  const references = input_references ?? []
  if (references.length === 0) return undefined
  const audio = references.flatMap(one => (one.type === 'input_audio' ? [one.input_audio] : []))
  const texts = references.flatMap(one => (one.type === 'text' ? [one.text] : []))
  const [recording] = audio
  if (!recording || audio.length > 1 || texts.length > 1)
    throw invalid(`${FIELD}: expected one input_audio and at most one text`, FIELD)
  if (voice != null)
    throw invalid('voice: expected none beside input_references, which have another', 'voice')
  const [transcript] = texts
  return { ...readRecording(recording), ...(transcript === undefined ? {} : { transcript }) }
}

function readRecording({ data, format }: { data: string; format: string }): VoiceSample {
  try {
    return { format, data: parseDataUrl(`data:audio/wav;base64,${data}`).data }
  } catch {
    throw invalid(`${FIELD}: expected input_audio.data in base64`, FIELD)
  }
}
