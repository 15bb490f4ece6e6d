import type { Gateway } from '../src/app/gateway.ts'
import { toDayNumber } from '../src/base/clock.ts'
import { buildGeneration, buildStepCharge } from '../test/support/generation.ts'
import { createSeededIntegers } from '../test/support/random.ts'

const AT_ONCE = 1_000
const MONTH = 31 * 86_400_000
const KEYS = 200
const MODELS = 50
const PROVIDERS = 3
const APPS = 10
/** How many models a key calls. */
const MODELS_OF_KEY = 4

/** The first moment of the month that the calls are of. */
export const FIRST = Date.parse('2026-10-01T00:00:00.000Z')

/** Returns the id of a record. */
export const nameRecord = (n: number, prefix = 'gen'): string =>
  `${prefix}-${String(n).padStart(9, '0')}`

/** Records so many calls of a month, each with its row in the ledger where `isCharged`. */
export async function recordCalls(
  { store }: Pick<Gateway, 'store'>,
  calls: number,
  isCharged: boolean,
  { prefix = 'gen', ...more }: { prefix?: string; workspace_id?: string } = {},
): Promise<void> {
  const integers = createSeededIntegers(1)
  // A few keys, models and apps have most of the calls.
  const pick = (below: number) => Math.min(integers(below), integers(below))
  const buildEntry = (n: number) => {
    const moment = new Date(FIRST + Math.floor((MONTH * n) / calls))
    const time = moment.toISOString()
    const key = pick(KEYS)
    const model = `acme/model-${(key + pick(MODELS_OF_KEY) * 7) % MODELS}`
    const cost = BigInt(1 + integers(50_000_000))
    const id = nameRecord(n, prefix)
    const payer = { key_hash: `key-${key}`, user_id: `user-${key % 20}` }
    return {
      generation: buildGeneration({
        ...more,
        ...payer,
        id,
        request_id: id,
        created_at: time,
        settled_at: time,
        model,
        provider_name: `Provider ${pick(PROVIDERS)}`,
        session_id: integers(2) === 0 ? `session-${integers(calls / 10 + 1)}` : null,
        http_referer: `https://app-${key % APPS}.example`,
        native_tokens_prompt: integers(20_000),
        native_tokens_completion: integers(2_000),
        total_cost: cost,
        upstream_inference_cost: cost,
      }),
      charge: isCharged
        ? buildStepCharge({
            ...payer,
            id,
            settled_at: time,
            day: toDayNumber(moment),
            nanos: cost,
          })
        : null,
    }
  }
  for (let done = 0; done < calls; done += AT_ONCE) {
    const count = Math.min(AT_ONCE, calls - done)
    await store.generations.record(Array.from({ length: count }, (_, i) => buildEntry(done + i)))
  }
}
