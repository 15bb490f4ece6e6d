import type { Endpoint, Model } from '../../../catalog/models.ts'
import { isObject } from '../../../kernel/json.ts'
import type { Ability, TextCall, WebSearch } from '../../../language/call.ts'
import type { Reasoning } from '../../../language/params.ts'
import { protocols } from '../../../protocols/registry.ts'
import { unsupportedBy } from '../../parameters.ts'

const THINKING = ':thinking'
const ONLINE = ':online'

/** What may stand behind the model's name to change what is asked of it (wire reference K.4). */
export const variantsOf = ({ reasoning }: Model): string[] => (reasoning ? [THINKING, ONLINE] : [ONLINE])

/** The call as a model is asked by this variant of its name, or by its own. */
export function asked(call: TextCall, variant: string): TextCall {
  const search = variant === ONLINE && call.webSearch === undefined ? {} : call.webSearch
  const thinking = variant === THINKING ? reasoning(call) : call
  return search ? searching(thinking, search) : thinking
}

function reasoning(call: TextCall): TextCall {
  return needing('reasoning', { ...call, params: { ...call.params, reasoning: switchedOn(call.params.reasoning) } })
}

// Whoever says himself whether it shall be on has said so.
const switchedOn = (wish: Reasoning = {}): Reasoning =>
  wish.enabled === undefined && wish.effort !== 'none' ? { ...wish, enabled: true } : wish

/** What the call says of the search by its own parameter rules over what the plugin says. */
function searching(call: TextCall, search: WebSearch): TextCall {
  const { web_search_options: own } = call.params
  return needing('web_search', { ...call, params: { ...call.params, web_search_options: { ...search, ...(isObject(own) ? own : {}) } } })
}

const needing = (ability: Ability, call: TextCall): TextCall => ({ ...call, needs: [...(call.needs ?? []), ability] })

/** What the call needs and the endpoint cannot do; undefined where there is nothing. */
export const missing = (call: TextCall, endpoint: Endpoint): Ability | undefined =>
  call.needs?.find(
    ability => unsupportedBy(endpoint, call).includes(PARAMETERS[ability]) || (ability === 'web_search' && !searches(call, endpoint)),
  )

const PARAMETERS: Record<Ability, string> = { reasoning: 'reasoning', web_search: 'web_search_options' }

const searches = (call: TextCall, endpoint: Endpoint): boolean => protocols.text[endpoint.protocol]?.searches?.(call, endpoint) ?? false
