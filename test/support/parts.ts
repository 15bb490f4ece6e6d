import type { GatewayError } from '../../src/base/errors.ts'
import type { FinishReason, TextPart } from '../../src/language/part.ts'
import type { ReasoningDetail } from '../../src/language/reasoning.ts'
import type { Usage } from '../../src/language/usage.ts'

/** The collected parts of an answer. */
export interface CollectedParts {
  upstream_id: string | null
  text: string
  refusal: string
  reasoning: string
  /** The structured entries of the reasoning, in the order of arrival. */
  details: ReasoningDetail[]
  calls: { id: string; name: string; input: string }[]
  images: string[]
  annotations: unknown[]
  finish: { reason: FinishReason; native: string | null } | null
  /** The last usage. */
  usage: Usage | null
  error: GatewayError | null
}

/**
 * Collects the parts of one choice and of the answer. Throws for input to a call that has not
 * begun.
 */
export function collectParts(parts: TextPart[], choice = 0): CollectedParts {
  const said: CollectedParts = { ...NOTHING, details: [], calls: [], images: [], annotations: [] }
  for (const part of parts) if (!('choice' in part) || part.choice === choice) add(said, part)
  return said
}

const NOTHING = {
  upstream_id: null,
  text: '',
  refusal: '',
  reasoning: '',
  finish: null,
  usage: null,
  error: null,
}

function add(said: CollectedParts, part: TextPart): void {
  switch (part.type) {
    case 'start':
      said.upstream_id = part.upstream_id
      break
    case 'text-delta':
      said.text += part.text
      break
    case 'refusal-delta':
      said.refusal += part.text
      break
    case 'reasoning-delta':
      said.reasoning += part.text
      said.details.push(...part.details)
      break
    case 'tool-call-start':
      said.calls[part.index] = { id: part.id, name: part.name, input: '' }
      break
    case 'tool-call-delta':
      getCall(said, part.index).input += part.input
      break
    case 'image':
      said.images.push(part.url)
      break
    case 'annotation':
      said.annotations.push(part.annotation)
      break
    case 'finish':
      said.finish = { reason: part.reason, native: part.native }
      break
    case 'usage':
      said.usage = part.usage
      break
    case 'error':
      said.error = part.error
      break
  }
}

function getCall({ calls }: CollectedParts, index: number) {
  const call = calls[index]
  if (!call) throw new Error(`Input for call ${index}, which has not begun`)
  return call
}
