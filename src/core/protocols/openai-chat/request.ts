import type { Endpoint } from '../../catalog/models.ts'
import type { Block, CacheControl, Params, Reasoning, TextCall, Tool, Turn } from '../../inference/call.ts'
import { forwarded, type UpstreamRequest } from '../protocol.ts'
import { effortOf } from '../reasoning.ts'

/** The call as an OpenAI chat request. Unknown parameters first, so that none of them can stand in for a known one. */
export function request(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const { max_tokens, reasoning, ...params } = call.params
  const body: Record<string, unknown> = {
    ...forwarded(call, 'chat'),
    model: endpoint.upstreamModel,
    messages: call.turns.map(message),
    ...params,
    ...outputBound(max_tokens, endpoint),
    ...reasoningWish(reasoning, call.params, endpoint),
  }
  if (call.tools.length > 0) body.tools = call.tools.map(tool)
  if (call.user !== null) body.user = call.user
  if (call.stream) Object.assign(body, { stream: true, stream_options: { include_usage: true } })
  return { path: '/chat/completions', body }
}

function outputBound(max_tokens: number | undefined, endpoint: Endpoint) {
  return max_tokens === undefined ? {} : { [endpoint.provider.outputBound]: max_tokens }
}

function reasoningWish(reasoning: Reasoning | undefined, params: Params, endpoint: Endpoint) {
  if (!reasoning) return {}
  if (endpoint.provider.reasoning === 'object') return { reasoning }
  const effort = effortOf(reasoning, params.max_tokens)
  return effort === undefined ? {} : { reasoning_effort: effort }
}

function message(turn: Turn): Record<string, unknown> {
  const said = { ...turn.extra, role: turn.role, content: content(turn.blocks), ...special(turn.blocks) }
  return {
    ...said,
    ...(turn.name === undefined ? {} : { name: turn.name }),
    ...(turn.tool_call_id === undefined ? {} : { tool_call_id: turn.tool_call_id }),
  }
}

// A single plain text goes as a string: the one form that every server reads.
function content(blocks: Block[]): unknown {
  const shown = blocks.filter(block => block.type !== 'tool-call' && block.type !== 'reasoning' && block.type !== 'refusal')
  if (shown.length === 0) return blocks.length === 0 ? '' : null
  const [only] = shown
  if (shown.length === 1 && only?.type === 'text' && !only.extra && !only.cache_control) return only.text
  return shown.map(part)
}

function part(block: Block): unknown {
  switch (block.type) {
    case 'text':
      return { ...block.extra, type: 'text', text: block.text, ...marker(block.cache_control) }
    case 'image':
      return {
        ...block.extra,
        type: 'image_url',
        image_url: { url: block.url, ...(block.detail === undefined ? {} : { detail: block.detail }) },
        ...marker(block.cache_control),
      }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: block.data, format: block.format } }
    case 'file':
      return { type: 'file', file: block.file, ...marker(block.cache_control) }
    case 'video':
      return { type: 'video_url', video_url: { ...block.extra, url: block.url } }
    case 'other':
      return block.value
    default:
      return undefined
  }
}

const marker = (cache_control: CacheControl | undefined) => (cache_control ? { cache_control } : {})

/** What a turn holds besides its content. */
function special(blocks: Block[]): Record<string, unknown> {
  const fields: Record<string, unknown> = {}
  const calls = blocks.filter(block => block.type === 'tool-call')
  if (calls.length > 0)
    fields.tool_calls = calls.map(({ id, name, input }) => ({ id, type: 'function', function: { name, arguments: input } }))
  for (const block of blocks) {
    if (block.type === 'refusal') fields.refusal = block.text
    if (block.type === 'reasoning' && block.text !== null) fields.reasoning = block.text
    if (block.type === 'reasoning' && block.details !== null) fields.reasoning_details = block.details
  }
  return fields
}

function tool(given: Tool): unknown {
  if (given.type === 'other') return given.value
  const { extra, type, cache_control, ...definition } = given
  return { ...extra, type, function: definition, ...marker(cache_control) }
}
