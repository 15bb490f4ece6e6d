import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, member, own } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import { readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { contentsOf } from './contents.ts'
import { formatOf } from './format.ts'
import { generationConfig } from './generation-config.ts'
import { namesOf } from './names.ts'
import { toolsOf } from './tools.ts'
import { isVertex } from './vertex.ts'

/** The call as a `GenerateContentRequest`. Unknown parameters first, so that none of them can stand in for a known one. */
export function request(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const names = namesOf(call)
  const form = formatOf(call, endpoint)
  const body: Json = {
    ...unknown(call),
    ...contentsOf(call, endpoint, names),
    ...withUnknown(call, 'toolConfig', toolsOf(call, endpoint, names, form)),
  }
  const config = generationConfig(call, endpoint, form.config)
  if (Object.keys(config).length > 0) body.generationConfig = config
  return { path: pathOf(call, endpoint), ...tier(call, endpoint, body), body }
}

// Its `n` has a place of its own, and so has its config. Google reads that by either name, and there shall be one only.
function unknown(call: TextCall): Json {
  const { n: _, generationConfig: __, generation_config: ___, ...rest } = readExtra(call)
  return rest
}

/** Where a known object may hold unknown members, those that the caller gave stay. */
function withUnknown(call: TextCall, name: string, known: Json): Json {
  const given = readExtra(call)[name]
  return isObject(given) && isObject(known[name]) ? { ...known, [name]: { ...given, ...member(known, name) } } : known
}

// A model's name may say itself what it is: `tunedModels/…`, `endpoints/…`.
function pathOf({ stream }: TextCall, { upstreamModel }: Endpoint): string {
  const name = upstreamModel.split('/').map(encodeURIComponent).join('/')
  const model = upstreamModel.includes('/') ? name : `models/${name}`
  return stream ? `/${model}:streamGenerateContent?alt=sse` : `/${model}:generateContent`
}

/** The tiers that Google has, as it names them. */
const TIERS: Record<string, string> = { default: 'standard', flex: 'flex', priority: 'priority' }

// The Gemini API is told in the body, Vertex by header.
function tier({ params }: TextCall, endpoint: Endpoint, body: Json): { headers?: Record<string, string> } {
  const wished = own(TIERS, params.service_tier)
  if (wished === undefined) return {}
  if (isVertex(endpoint)) return wished === 'standard' ? {} : { headers: { 'x-vertex-ai-llm-shared-request-type': wished } }
  body.serviceTier = wished
  return {}
}
