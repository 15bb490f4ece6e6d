import type { Json } from '../../kernel/json.ts'
import type { Params } from '../../language/params.ts'
import type { Capabilities } from './capabilities.data.ts'
import type { Thinking } from './thinking.ts'

/** How the words are chosen, as far as the model leaves that to the caller: not at all while it thinks, and 1 is the hottest. */
export function samplingOf({ temperature, top_p, top_k }: Params, { sampling }: Capabilities, { thinking }: Thinking): Json {
  if (sampling === 'none' || (thinking && thinking.type !== 'disabled')) return {}
  const said: Json = {}
  if (temperature !== undefined) said.temperature = Math.min(Math.max(temperature, 0), 1)
  if (top_p !== undefined && !(sampling === 'either' && temperature !== undefined)) said.top_p = top_p
  if (top_k !== undefined) said.top_k = top_k
  return said
}
