import type { Endpoint } from '../../catalog/models.ts'
import { own } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import { effortOf } from '../reasoning.ts'
import { BY_MODEL, BY_PROVIDER, type Capabilities, OTHERS } from './capabilities.data.ts'

/** What the model takes at this endpoint. */
export function capabilitiesOf({ provider, upstreamModel }: Endpoint): Capabilities {
  const served = { ...OTHERS, ...own(BY_PROVIDER, provider.slug) }
  const name = plainName(upstreamModel)
  return { ...served, ...BY_MODEL.find(([model]) => model.test(name))?.[1] }
}

// A vendor before the model, and the mark of a model that has been tuned, say nothing of what it takes.
const plainName = (name: string) => name.toLowerCase().replace(/^ft:/, '').replace(/^.*\//, '')

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

/**
 * The effort that the model is asked for: the wished one, or where it does not know that, the next that it does, upwards if there
 * is one. Undefined where nothing was wished, or the model does not reason.
 */
export function effortFor({ params }: TextCall, { efforts }: Capabilities): string | undefined {
  const wish = params.reasoning && effortOf(params.reasoning, params.max_tokens)
  if (wish === undefined || efforts === null) return undefined
  if (efforts === 'any' || efforts.includes(wish) || !EFFORTS.includes(wish)) return wish
  return efforts.find(effort => EFFORTS.indexOf(effort) > EFFORTS.indexOf(wish)) ?? efforts.at(-1)
}
