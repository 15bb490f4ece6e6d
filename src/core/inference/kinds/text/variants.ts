import type { Endpoint, Model } from '../../../catalog/models.ts'
import type { Ability, TextCall } from '../../../language/call.ts'
import type { Reasoning } from '../../../language/params.ts'
import { protocols } from '../../../protocols/registry.ts'
import { unsupportedBy } from '../../parameters.ts'

const THINKING = ':thinking'
const ONLINE = ':online'

/** What may stand behind the model's name to change what is asked of it (wire reference K.4). */
export const variantsOf = ({ reasoning }: Model): string[] => (reasoning ? [THINKING, ONLINE] : [ONLINE])

/** The call as a model is asked by this variant of its name, or by its own. `:online` asks for the plugin that searches the web. */
export function asked(call: TextCall, variant: string): TextCall {
  if (variant === THINKING) return reasoning(call)
  return variant === ONLINE && call.plugins?.web === undefined ? { ...call, plugins: { ...call.plugins, web: {} } } : call
}

function reasoning(call: TextCall): TextCall {
  return needing('reasoning', { ...call, params: { ...call.params, reasoning: switchedOn(call.params.reasoning) } })
}

// Whoever says himself whether it shall be on has said so.
const switchedOn = (wish: Reasoning = {}): Reasoning =>
  wish.enabled === undefined && wish.effort !== 'none' ? { ...wish, enabled: true } : wish

/** The call for endpoints alone that have this ability. */
export const needing = (ability: Ability, call: TextCall): TextCall => ({ ...call, needs: [...(call.needs ?? []), ability] })

/** What the call needs and the endpoint cannot do; undefined where there is nothing. */
export const missing = (call: TextCall, endpoint: Endpoint): Ability | undefined =>
  call.needs?.find(
    ability => unsupportedBy(endpoint, call).includes(PARAMETERS[ability]) || (ability === 'web_search' && !searches(call, endpoint)),
  )

const PARAMETERS: Record<Ability, string> = { reasoning: 'reasoning', web_search: 'web_search_options' }

const searches = (call: TextCall, endpoint: Endpoint): boolean => protocols.text[endpoint.protocol]?.searches?.(call, endpoint) ?? false
