import { GatewayError } from '../../src/base/errors.ts'
import { withCleanup } from '../../src/engine/infer.ts'
import type { Answer } from '../../src/language/answer.ts'
import type { TextPart } from '../../src/language/part.ts'
import { createTextUsage, type Receipt } from '../../src/language/usage.ts'
import type { AnswerPart, Kind } from '../../src/language/work.ts'

/** Builds answers from parts, for tests of dialects. */

const choice = 0
const RECEIPT: Receipt = {
  usage: createTextUsage(10, 5),
  usageSource: 'exact',
  cost: 0n,
  cost_details: null,
  is_byok: false,
}
export const receipt: TextPart = { type: 'receipt', receipt: RECEIPT }
export const text = (said: string): TextPart => ({ type: 'text-delta', choice, text: said })
export const finish: TextPart = { type: 'finish', choice, reason: 'stop', native: 'stop' }
export const start: TextPart = {
  type: 'start',
  upstream_id: 'up',
  system_fingerprint: null,
  service_tier: 'standard',
}
export const failed: TextPart = {
  type: 'error',
  error: new GatewayError('provider_unavailable', 'Provider returned error'),
}

/** Creates an answer of these batches. */
export function createAnswer<K extends Kind = 'text'>(...batches: AnswerPart<K>[][]): Answer<K> {
  const [first = [], ...rest] = batches
  const watcher = { onItem() {}, onEnd: async () => undefined }
  const parts = withCleanup<AnswerPart<K>[]>(
    { first, rest: rest.length > 0 ? iterate(rest) : null },
    watcher,
  )
  return { id: 'gen-1', model: 'acme/small', provider: 'Local', created: 0, parts }
}

async function* iterate<Batch>(batches: Batch[]): AsyncGenerator<Batch> {
  yield* batches
}
