import { iterate } from '../base/iterate.ts'
import { admitRun } from '../engine/admit.ts'
import { GatheredMemory, measurePart } from '../engine/gathered-memory.ts'
import { closeRun, startRun, withCleanup } from '../engine/infer.ts'
import { clientLeft, type Run } from '../engine/run.ts'
import { startTranscript } from '../engine/settle/transcript.ts'
import type { KeptAnswer } from '../engine/traffic/response-cache.ts'
import type { Answer } from '../language/answer.ts'
import type { CommonPart } from '../language/part.ts'
import { createFreeReceipt, createTextUsage } from '../language/usage.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import { getPolicy, listAppliedGuardrails } from '../limits/effective.ts'
import { mayRetainNothing } from '../limits/zdr.ts'
import type { Actor } from '../resources/actor.ts'
import type { ExtensionWorld } from './world.ts'

/** How a call uses the cache of answers (wire reference K.7). */
export interface CacheUse {
  /** Stands for the key, the endpoint, the body and all else that the answer depends on. */
  name: string
  /** In seconds: how long the answer is kept. */
  ttl: number
}

/** What a preset says about the cache; null where it says nothing. */
export interface PresetCaching {
  version: string
  enabled: boolean | null
  ttl: number | null
}

/** Returns what the preset of a call says about the cache; null without a preset. */
export function findPresetCaching(
  { memory }: ExtensionWorld,
  { preset_id }: Work[Kind]['call'],
): PresetCaching | null {
  if (preset_id === null) return null
  const [preset] = memory.presets.filter(({ id }) => id === preset_id)
  if (!preset) return null
  const { id, config } = preset.designated_version
  const { cache_enabled, cache_ttl_seconds } = config
  return {
    version: id,
    enabled: typeof cache_enabled === 'boolean' ? cache_enabled : null,
    ttl: typeof cache_ttl_seconds === 'number' ? cache_ttl_seconds : null,
  }
}

/** Whether answers to this call may be kept: never under zero data retention. */
export function isCacheable(
  world: ExtensionWorld,
  actor: Actor,
  call: Work[Kind]['call'],
): boolean {
  return !mayRetainNothing(world, getPolicy(world, actor).zdr, call)
}

/**
 * Finds the answer to a call that was given before, under the same config. A promise where other
 * servers may have it.
 */
export function findKeptAnswer(
  { traffic: { responseCache }, config, clock }: ExtensionWorld,
  { name }: CacheUse,
): KeptAnswer | null | Promise<KeptAnswer | null> {
  const own = responseCache.find(name, config, clock.now().getTime())
  if (own || !responseCache.shared) return own
  return responseCache.shared.find(name).then(found => {
    if (!found || found.expires_at <= clock.now().getTime()) return null
    responseCache.keep(name, found, config.response_cache.max_mib * MIB)
    return found
  })
}

/** Describes the guardrails of an actor: answers under others are others. */
export const describeRules = (world: ExtensionWorld, actor: Actor): string =>
  JSON.stringify(
    listAppliedGuardrails(world, actor).map(({ guardrail }) => guardrail),
    (_, value) => (typeof value === 'bigint' ? value.toString() : value),
  )

/**
 * Gives an answer again: with a new id, no usage and no cost, and a record that names its source. It
 * counts as a call for rate limits. Throws what the stage `admit` throws.
 */
export async function replayAnswer<K extends Kind>(
  world: ExtensionWorld,
  actor: Actor,
  call: Work[K]['call'],
  kept: KeptAnswer,
): Promise<Answer<K>> {
  const run = startRun(world, actor, kept.kind as K, call)
  await admitRun(world, run)
  run.replayed = kept
  if (run.policy.contentShare) startTranscript(world, run)
  const [first = [], ...others] = kept.batches as AnswerPart<K>[][]
  const cleaned = withCleanup<AnswerPart<K>[]>(
    { first, rest: iterate(others) },
    {
      onItem(batch) {
        run.firstPartAt ??= world.clock.ticks()
        run.transcript?.read(batch)
      },
      onEnd: ({ type }) => endReplay(world, run, type === 'abandoned'),
    },
  )
  const holder = { key: actor.key_hash ?? actor.kind, call: run }
  const parts = new GatheredMemory(world.traffic.admission, holder, cleaned, kept.size)
  return {
    id: call.id,
    model: kept.model,
    provider: kept.provider,
    created: Math.floor(run.created.getTime() / 1000),
    ...(kept.isWhole ? { isWhole: true as const } : {}),
    ...(kept.ignored.length > 0 ? { ignored: kept.ignored } : {}),
    ...(run.rateGrant ? { isRated: true as const } : {}),
    parts,
  }
}

async function endReplay(
  world: ExtensionWorld,
  run: Run,
  isAbandoned: boolean,
): Promise<CommonPart[]> {
  const error = isAbandoned ? clientLeft() : null
  if (error) run.cancellation.cancel(error)
  const ended = await closeRun(world, run, error)
  const receipt = { type: 'receipt' as const, receipt: createFreeReceipt(createTextUsage(0, 0)) }
  return ended ? [{ type: 'error', error: ended }, receipt] : [receipt]
}

/**
 * Follows an answer on its way to the client, and keeps it if it ends well: one that a limit has
 * shortened would be given again when that has more.
 */
export function keepAnswer<K extends Kind>(
  world: ExtensionWorld,
  kind: K,
  answer: Answer<K>,
  { name, ttl }: CacheUse,
): Answer<K> {
  const { config } = world
  const most = config.response_cache.max_mib * MIB
  const keeping = new AnswerKeeper(most)
  const source = answer.parts
  const parts: Answer<K>['parts'] = {
    async next() {
      const step = await source.next()
      if (!step.done) keeping.read(step.value)
      if (keeping.isGood) finish()
      return step
    },
    async collect() {
      const batches = await source.collect()
      for (const batch of batches) keeping.read(batch)
      if (keeping.isGood) finish()
      return batches
    },
    return: async () => (await source.return?.()) ?? { done: true, value: undefined },
    [Symbol.asyncIterator]: () => parts,
  }
  const finish = () => {
    const now = world.clock.now().getTime()
    const { id: source_id, model, provider, isWhole = false, ignored = [] } = answer
    const { batches, size, finish } = keeping
    const { responseCache } = world.traffic
    const kept = {
      ...{ source_id, kind, model, provider, isWhole, ignored, batches, size, finish, config },
      ...{ kept_at: now, expires_at: now + ttl * 1000 },
    }
    responseCache.keep(name, kept, most)
    responseCache.shared?.keep(name, kept)
  }
  return { ...answer, parts }
}

const MIB = 1024 * 1024
/** Parts about one call alone. */
const OWN = ['usage', 'receipt', 'echo']
/** In bytes: what a part takes beside its texts. */
const PART = 100
const BYTES_PER_CHARACTER = 2

/** Gathers the parts of an answer up to a size, and tells whether it is whole and has ended well. */
class AnswerKeeper {
  batches: unknown[][] = []
  /** In bytes. */
  size = 0
  readonly #most: number
  finish: KeptAnswer['finish'] = null
  #hasEnded = false
  #hasFailed = false

  constructor(most: number) {
    this.#most = most
  }

  get isGood(): boolean {
    return this.#hasEnded && !this.#hasFailed && this.batches.length > 0
  }

  read(batch: AnswerPart<Kind>[]): void {
    for (const part of batch) this.#readPart(part)
    const kept = batch.filter(({ type }) => !OWN.includes(type))
    for (const part of kept) this.size += PART + measurePart(part) * BYTES_PER_CHARACTER
    if (this.size > this.#most) this.batches = []
    else if (kept.length > 0) this.batches.push(kept)
  }

  #readPart(part: AnswerPart<Kind>): void {
    if (part.type === 'error') this.#hasFailed = true
    if (part.type === 'receipt') this.#hasEnded = true
    if (part.type === 'receipt' && part.isShortened) this.#hasFailed = true
    if (part.type !== 'finish') return
    if (part.reason === 'error') this.#hasFailed = true
    this.finish = { reason: part.reason, native: part.native }
  }
}
