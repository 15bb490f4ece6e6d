import { createRandomIds } from '../../../../base/ids.ts'
import { isObject, parseObject } from '../../../../base/json.ts'
import { createSeal, type Seal } from '../../../../base/seal.ts'
import { runInTurns } from '../../../../base/turns.ts'
import { buildTrace } from '../../build-trace.ts'
import { type ExportedCall, isPlain } from '../../exported-call.ts'
import type { DeliveryRequest } from '../../kind.ts'
import { findKind } from '../../registry.ts'
import type { FilterField, FilterRule, FilterRules } from '../../schema.ts'
import { isAddressed } from '../../subscribers.ts'
import type { PackedMessages, RenderedBatch, RenderJob } from '../renderer.ts'

const ids = createRandomIds()
const utf8 = new TextDecoder()

/**
 * Opens messages, and renders the request that tells those which the destination is to get. Never
 * rejects.
 */
export async function renderBatch(job: RenderJob): Promise<RenderedBatch> {
  const seal = job.key && createSeal(job.key)
  const sorted: Record<Place, number[]> = { told: [], skipped: [], unreadable: [], unjudged: [] }
  const calls: ExportedCall[] = []
  for (const { sequence, generation_id, payload } of unpackMessages(job.messages)) {
    const call = openMessage(payload, generation_id, seal)
    const place = call ? await placeCall(job, call) : 'unreadable'
    sorted[place].push(sequence)
    if (call && place === 'told') calls.push(call)
  }
  return { ...sorted, request: calls.length === 0 ? null : renderRequest(job, calls) }
}

/** Lists what moves to the other thread without a copy. */
export const listTransfers = ({ request }: RenderedBatch): Transferable[] =>
  request && typeof request.body !== 'string' ? [request.body.buffer as ArrayBuffer] : []

type Place = Exclude<keyof RenderedBatch, 'request'>

function* unpackMessages({ sequences, generation_ids, lengths, payloads }: PackedMessages) {
  const ids = generation_ids.split('\n')
  let end = 0
  for (const [i, sequence] of sequences.entries()) {
    const payload = payloads.subarray(end, end + (lengths[i] ?? 0))
    end += payload.length
    yield { sequence, generation_id: ids[i] ?? '', payload }
  }
}

function openMessage(payload: Uint8Array, id: string, seal: Seal | null): ExportedCall | null {
  try {
    const text = utf8.decode(payload)
    const call = parseObject((isPlain(payload) ? text : seal?.open(text, id)) ?? '')
    return call && isObject(call.facts) ? (call as unknown as ExportedCall) : null
  } catch {
    return null
  }
}

async function placeCall({ destination }: RenderJob, call: ExportedCall): Promise<Place> {
  try {
    if (!isAddressed({ destination }, call)) return 'skipped'
    const rules = destination.filter_rules
    return rules === null || (await matchesRules(rules, readValues(call))) ? 'told' : 'skipped'
  } catch {
    return 'unjudged'
  }
}

/** Reads what filter rules compare. */
function readValues({ facts, input, output, session_id }: ExportedCall): FilterValues {
  return {
    model: facts.model,
    provider: facts.providerName,
    session_id,
    user_id: facts.userId,
    api_key_name: facts.apiKeyName,
    finish_reason: facts.finishReason,
    input: input && JSON.stringify(input),
    output:
      output && [output.reasoning, output.completion].filter(text => text !== null).join('\n'),
    total_cost: facts.totalCost,
    total_tokens: facts.promptTokens + facts.completionTokens,
    prompt_tokens: facts.promptTokens,
    completion_tokens: facts.completionTokens,
  }
}

function renderRequest(
  { destination, config, world }: RenderJob,
  calls: ExportedCall[],
): DeliveryRequest | null {
  try {
    const { render } = findKind(destination.type)
    const traces = calls.map(call => buildTrace(call, destination))
    const request = render({ ...world, createId: () => ids.uuid() }, config as never, traces)
    return { ...request, body: toOwnBytes(request.body) }
  } catch {
    return null
  }
}

// Bytes that share their memory with others cannot be moved to another thread.
function toOwnBytes(body: string | Uint8Array): Uint8Array {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body
  return bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice()
}

/** What rules read of a call; null where the call has none. */
export type FilterValues = Record<FilterField, string | number | null>

/**
 * Tells whether a call matches: any group does. Rules that are off, absent or without groups match
 * every call. Patterns run in linear time, and others get their turn meanwhile.
 */
export async function matchesRules(
  rules: FilterRules | null,
  values: FilterValues,
): Promise<boolean> {
  if (!rules || rules.enabled === false || rules.groups.length === 0) return true
  for (const { logic = 'and', rules: members } of rules.groups)
    if (await matchesGroup(logic, members as FilterRule[], values)) return true
  return false
}

async function matchesGroup(
  logic: 'and' | 'or',
  rules: FilterRule[],
  values: FilterValues,
): Promise<boolean> {
  for (const rule of rules) {
    const isMatch = await matchesRule(rule, values[rule.field])
    if (isMatch === (logic === 'or')) return isMatch
  }
  return logic === 'and'
}

async function matchesRule(
  { operator, value }: FilterRule,
  found: string | number | null,
): Promise<boolean> {
  const text = found === null ? null : String(found)
  if (operator === 'regex') return text !== null && matchesPattern(String(value), text)
  return COMPARISONS[operator](text, String(value ?? ''), Number(found), Number(value))
}

type Comparison = (text: string | null, value: string, number: number, limit: number) => boolean

/** How each operator compares. A call without the field has only what is negated. */
const COMPARISONS: Record<Exclude<FilterRule['operator'], 'regex'>, Comparison> = {
  equals: (text, value) => text === value,
  not_equals: (text, value) => text !== value,
  contains: (text, value) => text?.includes(value) ?? false,
  not_contains: (text, value) => !(text?.includes(value) ?? false),
  starts_with: (text, value) => text?.startsWith(value) ?? false,
  ends_with: (text, value) => text?.endsWith(value) ?? false,
  gt: (_, __, number, limit) => number > limit,
  lt: (_, __, number, limit) => number < limit,
  gte: (_, __, number, limit) => number >= limit,
  lte: (_, __, number, limit) => number <= limit,
  exists: text => text !== null && text !== '',
  not_exists: text => text === null || text === '',
}

// Loaded when a rule has a pattern: a server without one starts without the engine.
async function matchesPattern(pattern: string, text: string): Promise<boolean> {
  const { searchText } = await import('../../../../limits/patterns/search.ts')
  const { getPatternProgram } = await import('../../../../limits/patterns.ts')
  let isFound = false
  await runInTurns(
    searchText(getPatternProgram(pattern), text, () => {
      isFound = true
    }),
  )
  return isFound
}
