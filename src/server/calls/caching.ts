import type { Gateway } from '../../app/gateway.ts'
import { invalid } from '../../base/errors.ts'
import type { KeptAnswer } from '../../engine/traffic/response-cache.ts'
import {
  type CacheUse,
  describeRules,
  findKeptAnswer,
  findPresetCaching,
  isCacheable,
  type PresetCaching,
} from '../../extensions/cached.ts'
import type { DialectName } from '../../language/dialect.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Actor } from '../../resources/actor.ts'
import type { CallContext, Dialect } from '../../translation/dialects/dialect.ts'
import type { CacheHeaders } from '../headers.ts'

/** The dialects whose answers can be kept (wire reference K.7). */
const CACHED: DialectName[] = [
  ...(['chat', 'responses', 'messages', 'embeddings', 'converse', 'invoke'] as const),
]

/** In seconds: how long an answer is kept by default. */
const USUAL_TTL = 300

/** What the cache of answers does for a call. */
export interface Caching {
  use: CacheUse
  /** The answer that was given before; null without one. */
  kept: KeptAnswer | null
  /** What the names of the answer's headers begin with. */
  prefix: string
}

/** One request to a dialect's route. */
interface CachingRoute {
  gateway: Gateway
  dialect: Dialect
  actor: Actor
  request: Request
}

/** What was asked. */
interface Asked {
  call: Work[Kind]['call']
  body: unknown
  context: CallContext
}

/**
 * Finds what the cache does for a call; null for one that does not use it. A preset that switches it
 * off precedes the header, and the header precedes one that switches it on. A promise where other
 * servers may have its answer. Throws 400 for headers without effect.
 */
export function findCaching(
  route: CachingRoute,
  asked: Asked,
  headers: CacheHeaders | null,
): Caching | null | Promise<Caching> {
  const { gateway, actor } = route
  const preset = findPresetCaching(gateway, asked.call)
  if (headers) checkHeaders(route, headers, preset)
  const enabled = preset?.enabled === false ? false : (headers?.enabled ?? preset?.enabled)
  if (!enabled || !canCache(route) || !isCacheable(gateway, actor, asked.call)) return null
  const ttl = headers?.ttl ?? preset?.ttl ?? USUAL_TTL
  const use = { name: nameCall(route, asked, preset), ttl }
  if (headers?.clears) gateway.traffic.responseCache.forget(use.name)
  const found = findKeptAnswer(gateway, use)
  const prefix = headers?.prefix ?? 'x-openrouter-cache'
  if (!(found instanceof Promise)) return { use, kept: found, prefix }
  return found.then(kept => ({ use, kept, prefix }))
}

const canCache = ({ gateway, dialect }: CachingRoute): boolean =>
  CACHED.includes(dialect.name) && gateway.config.response_cache.max_mib > 0

function checkHeaders(route: CachingRoute, headers: CacheHeaders, preset: PresetCaching | null) {
  const { enabled, ttl, clears, prefix } = headers
  if (enabled === true && !canCache(route))
    throw invalid(`${prefix}: expected nothing, as these answers are not kept here`, prefix)
  const isOn = enabled ?? preset?.enabled ?? false
  if (isOn || enabled === false || preset?.enabled === false) return
  const idle = ttl !== null ? `${prefix}-ttl` : clears ? `${prefix}-clear` : null
  if (idle !== null) throw invalid(`${idle}: expected ${prefix}: true beside it`, idle)
}

/**
 * Names what an answer depends on: the key, the endpoint, the body in the order of its fields, the
 * version of its preset, and what headers change about an answer.
 */
function nameCall(
  { gateway, dialect, actor }: CachingRoute,
  asked: Asked,
  preset: PresetCaching | null,
) {
  const { call, body, context } = asked
  const { betas, routingMetadataField = null, origin, session_id } = context
  const parts = [
    ...[actor.key_hash, actor.workspace_id, dialect.name, call.stream, body],
    ...[preset?.version ?? null, betas, routingMetadataField, origin.region, session_id],
    describeRules(gateway, actor),
  ]
  return Bun.CryptoHasher.hash('sha256', JSON.stringify(parts), 'hex')
}

/** Renders the headers that tell what the cache did. */
export function renderCacheHeaders(
  { clock }: Gateway,
  { use, kept, prefix }: Caching,
): Record<string, string> {
  if (!kept) return { [`${prefix}-status`]: 'MISS', [`${prefix}-ttl`]: String(use.ttl) }
  const now = clock.now().getTime()
  return {
    [`${prefix}-status`]: 'HIT',
    [`${prefix}-age`]: String(Math.floor((now - kept.kept_at) / 1000)),
    [`${prefix}-ttl`]: String(Math.max(0, Math.ceil((kept.expires_at - now) / 1000))),
    [`${prefix}-source-id`]: kept.source_id,
  }
}
