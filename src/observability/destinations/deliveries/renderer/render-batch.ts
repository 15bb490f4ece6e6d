import { createRandomIds } from '../../../../base/ids.ts'
import { isObject, parseObject } from '../../../../base/json.ts'
import { createSeal, type Seal } from '../../../../base/seal.ts'
import { buildTrace } from '../../build-trace.ts'
import { type ExportedCall, isPlain } from '../../exported-call.ts'
import { type FilterValues, matchesRules } from '../../filter-rules.ts'
import type { DeliveryRequest } from '../../kind.ts'
import { findKind } from '../../registry.ts'
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
