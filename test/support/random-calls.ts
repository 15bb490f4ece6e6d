import type { Generation } from '../../src/observability/generations/store.ts'
import { buildGeneration } from './generation.ts'

const pick = <T>(integers: (below: number) => number, from: readonly T[]): T =>
  from[integers(from.length)] as T

const WORKSPACES = ['w1', 'w2']
const KEYS = [null, 'k1', 'k2', 'k3']
const MODELS = ['acme/one', 'acme/two', 'acme/two:free', 'zeta/three']
const ENDPOINTS = ['local/up', 'local/other']
const APPS: [http_referer: string | null, title: string | null][] = [
  [null, null],
  ['https://a.example/', 'A'],
  ['https://a.example', null],
  ['https://a.example/b', 'A'],
  [null, 'A'],
  ['http://localhost:3000', 'Mine'],
]

const BEGIN = Date.parse('2026-03-04T22:00:00.000Z')
const HOUR = 3_600_000

/** Creates a maker of random calls around a week, whose clock sometimes jumps. */
export function createRandomCalls(integers: (below: number) => number): () => Generation {
  let number = 0
  let moment = BEGIN
  return () => {
    number += 1
    moment += integers(20) === 0 ? (integers(200) - 100) * HOUR : integers(HOUR)
    const settled_at = new Date(moment).toISOString()
    const [http_referer, title] = pick(integers, APPS)
    const endpoint_id = pick(integers, ENDPOINTS)
    const isAnswered = integers(8) !== 0
    const base = buildGeneration()
    const [response] = base.provider_responses
    return {
      ...base,
      id: `gen-${String(number).padStart(6, '0')}`,
      created_at: settled_at,
      settled_at,
      workspace_id: pick(integers, WORKSPACES),
      key_hash: pick(integers, KEYS),
      user_id: pick(integers, ['user_1', 'user_2']),
      model: pick(integers, MODELS),
      provider_name: isAnswered ? 'Local' : null,
      provider_responses: isAnswered && response ? [{ ...response, endpoint_id }] : [],
      cancelled: integers(10) === 0,
      error_type: isAnswered ? null : pick(integers, ['provider_unavailable', 'timeout']),
      native_tokens_prompt: integers(100_000),
      native_tokens_completion: integers(5_000),
      native_tokens_reasoning: integers(100),
      native_tokens_cached: integers(1_000),
      total_cost: integers(9) === 0 ? null : BigInt(integers(2_000_000_000)),
      upstream_inference_cost: integers(5) === 0 ? null : BigInt(integers(2_000_000_000)),
      is_byok: integers(4) === 0,
      streamed: integers(2) === 0,
      latency: integers(5) === 0 ? null : integers(3_000) / 2,
      generation_time: integers(9_000) / 2,
      finish_reason: isAnswered ? pick(integers, ['stop', 'length', 'tool_calls']) : null,
      session_id: integers(4) === 0 ? null : `s-${integers(12)}`,
      external_user: pick(integers, [null, 'ada']),
      http_referer,
      title,
      contentFilters:
        integers(6) === 0
          ? [{ guardrail_id: 'g', filter: 'email', action: 'flag', where: 'input', count: 1 }]
          : [],
    }
  }
}
