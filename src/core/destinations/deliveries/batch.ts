import { isObject, parseObject } from '../../kernel/json.ts'
import { isAddressed } from '../audience.ts'
import { buildTrace } from '../build-trace.ts'
import { type FilterValues, matchesRules } from '../filter-rules.ts'
import type { OpenedDestination } from '../opened.ts'
import type { ToldCall } from '../told-call.ts'
import type { Trace } from '../trace.ts'
import type { DestinationWorld } from '../world.ts'
import type { WaitingDelivery } from './store.ts'

/** Messages that go to a destination in one request. */
export interface Batch {
  items: BatchItem[]
  /** How often it was answered with a failure that may pass. */
  failures: number
  /** How many requests had succeeded when it failed first; null if it has not. */
  successesBefore: number | null
}

export interface BatchItem {
  sequence: number
  /** Milliseconds since the epoch. */
  recordedAt: number
  trace: Trace
}

/** Messages as they were read: those to send, and those that go no further. */
export interface SortedMessages {
  items: BatchItem[]
  /** The destination is not to get these. */
  skipped: number[]
  /** These are missing, damaged, or sealed with another secret than this gateway's. */
  unreadable: number[]
}

/** Opens messages and builds the traces that the destination is told, by its settings as they are. */
export async function sortMessages(
  world: DestinationWorld,
  opened: OpenedDestination,
  rows: WaitingDelivery[],
): Promise<SortedMessages> {
  const sorted: SortedMessages = { items: [], skipped: [], unreadable: [] }
  const { filter_rules } = opened.destination
  for (const row of rows) {
    const call = openMessage(world, row)
    if (!call) sorted.unreadable.push(row.sequence)
    else if (!isAddressed(opened, call) || !(await matchesRules(filter_rules, readValues(call))))
      sorted.skipped.push(row.sequence)
    else sorted.items.push(toItem(opened, row, call))
  }
  return sorted
}

const toItem = (
  { destination }: OpenedDestination,
  { sequence, created_at }: WaitingDelivery,
  call: ToldCall,
): BatchItem => ({
  sequence,
  recordedAt: Date.parse(created_at),
  trace: buildTrace(call, destination),
})

function openMessage(
  { secrets }: DestinationWorld,
  { payload, generation_id }: WaitingDelivery,
): ToldCall | null {
  try {
    const json = payload.startsWith('{')
      ? payload
      : secrets.destinationSeal().open(payload, generation_id)
    const call = parseObject(json ?? '')
    return call && isObject(call.facts) ? (call as unknown as ToldCall) : null
  } catch {
    return null
  }
}

/** Reads what filter rules compare. */
function readValues({ facts, input, output, session_id }: ToldCall): FilterValues {
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

/** Cuts a batch in two. What is known of the first failure stays. */
export function splitBatch({ items, successesBefore }: Batch): [Batch, Batch] {
  const middle = Math.ceil(items.length / 2)
  return [
    { ...createBatch(items.slice(0, middle)), successesBefore },
    { ...createBatch(items.slice(middle)), successesBefore },
  ]
}

export const createBatch = (items: BatchItem[]): Batch => ({
  items,
  failures: 0,
  successesBefore: null,
})
