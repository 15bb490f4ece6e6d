import type { Endpoint } from '../../catalog/models.ts'
import { defined, isObject, type Json, member, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Params } from '../../language/params.ts'
import { readExtra } from '../native.ts'
import { capabilitiesOf } from './capabilities.ts'
import { thinkingConfig } from './thinking.ts'
import { isVertex } from './vertex.ts'

/** Google takes fewer of some things than a client may send. */
const MOST_STOPS = 5
const MOST_LOGPROBS = 20

/** The parameters of the call as a `generationConfig`, `form` being what they say of the answer's form. Others have no word there. */
export function generationConfig(call: TextCall, endpoint: Endpoint, form: Json): Json {
  const { params } = call
  const { n } = readExtra(call)
  const { thinking, penalties } = capabilitiesOf(endpoint)
  return defined({
    ...member(readExtra(call), 'generationConfig'),
    maxOutputTokens: params.max_tokens,
    temperature: params.temperature,
    topP: params.top_p,
    topK: params.top_k,
    ...(penalties || isVertex(endpoint) ? { frequencyPenalty: params.frequency_penalty, presencePenalty: params.presence_penalty } : {}),
    // 32 bits there.
    seed: params.seed === undefined ? undefined : params.seed | 0,
    stopSequences: params.stop?.slice(0, MOST_STOPS),
    candidateCount: typeof n === 'number' ? n : undefined,
    ...logprobs(params),
    ...modalities(params),
    thinkingConfig: thinkingConfig(params, thinking),
    ...form,
  })
}

// From 1 to 20 there; the chat API's 0 is no alternatives, which is what leaving it out means.
function logprobs({ logprobs: wished, top_logprobs: top = 0 }: Params): Json {
  if (!wished && top === 0) return {}
  return { responseLogprobs: true, ...(top > 0 ? { logprobs: Math.min(top, MOST_LOGPROBS) } : {}) }
}

// Text alone is what every model gives, and what some refuse to be asked for.
function modalities({ modalities: wished = [], image_config, audio }: Params): Json {
  const others = wished.some(one => one !== 'text')
  return {
    responseModalities: others ? wished.map(one => one.toUpperCase()) : undefined,
    imageConfig: isObject(image_config) ? inCamelCase(image_config) : undefined,
    speechConfig: isObject(audio) && wished.includes('audio') ? speechConfig(audio) : undefined,
  }
}

const inCamelCase = (given: Json): Json =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()), value]))

function speechConfig({ voice }: Json): Json | undefined {
  const voiceName = text(voice)
  return voiceName === null ? undefined : { voiceConfig: { prebuiltVoiceConfig: { voiceName } } }
}
