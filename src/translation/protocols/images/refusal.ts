import { GatewayError } from '../../../base/errors.ts'
import { isObject, type Json, readObjects, readString } from '../../../base/json.ts'
import { buildReason } from '../failure.ts'

/** Values and codes that say that a provider does not draw this, or does not show it. */
const REFUSED = new RegExp(
  [
    'safety|moderat|prohibited|block(ed|list)|recitation|spii|no_image|responsibleai',
    'content[ _]?filter|content[ _]?policy|nsfw|filtered',
  ].join('|'),
  'i',
)

/** The fields that say so by such a value, and those that say it in the provider's words. */
const STATES = new Set(['finishReason', 'finish_reason', 'blockReason', 'status', 'code', 'type'])
const WORDS = ['raiFilteredReason', 'blockReasonMessage', 'finishMessage', 'refusal']

/** The deepest value, and the most fields, that are looked at. */
const DEEPEST = 7
const MOST_FIELDS = 5_000

/**
 * Returns the error for an answer that has no picture because its provider refused to draw one: 400
 * with the provider's words, as no other provider would draw it either. Null where nothing says so:
 * then there is simply nothing, and the provider has failed. `words` are what was said in the place
 * of a picture.
 */
export function findRefusal(body: unknown, words = ''): GatewayError | null {
  const found = searchRefusal(body)
  const said = found?.words ?? (words.trim() === '' ? null : words)
  return found || said !== null ? refusedPicture(said ?? found?.state) : null
}

/** The error for a picture that a provider refuses to draw, or draws and does not show. */
export const refusedPicture = (words?: string | null): GatewayError =>
  new GatewayError('content_policy_violation', 'The provider refused to draw this', {
    ...(words ? { reason: buildReason(null, words) } : {}),
  })

/**
 * Returns the error for an error within an answer: a refusal, or what `readFailure` makes of it. The
 * code of a refusal is no status, so that it would look like a broken provider.
 */
export function readAnswerFailure<Body>(
  error: Body,
  readFailure: (error: Body) => GatewayError,
): GatewayError {
  const failure = readFailure(error)
  const found = searchRefusal(error)
  return found ? refusedPicture(failure.reason?.message ?? found.words ?? found.state) : failure
}

interface Found {
  words: string | null
  state: string
}

function searchRefusal(body: unknown): Found | null {
  let open: unknown[] = [body]
  let left = MOST_FIELDS
  for (let depth = 0; depth < DEEPEST && open.length > 0; depth++) {
    const deeper: unknown[] = []
    for (const value of open) {
      if (Array.isArray(value)) for (const one of value.slice(0, left)) deeper.push(one)
      if (!isObject(value)) continue
      const found = readRefusal(value)
      if (found) return found
      for (const name in value) if (left-- > 0) deeper.push(value[name])
      if (left <= 0) return null
    }
    open = deeper
  }
  return null
}

function readRefusal(value: Json): Found | null {
  const words = WORDS.flatMap(name => readString(value[name]) || []).at(0) ?? null
  for (const name of STATES) {
    const state = readString(value[name])
    if (state !== null && state.length < 100 && REFUSED.test(state)) return { words, state }
  }
  if (words !== null) return { words, state: words }
  const categories = listFiltered(value)
  if (categories.length === 0) return null
  return { words: `Filtered for ${categories.join(', ')}`, state: 'content_filter' }
}

/** Lists what Azure and others have filtered for: `{ violence: { filtered: true } }`. */
function listFiltered(value: Json): string[] {
  const results = [value.content_filter_results, value.prompt_filter_results]
  const filtered = results
    .flatMap(result => (isObject(result) ? [result] : readObjects(result)))
    .flatMap(result =>
      Object.entries(result).flatMap(([name, one]) =>
        isObject(one) && one.filtered === true ? [name.slice(0, 40)] : [],
      ),
    )
  const flags = value.has_nsfw_concepts
  return Array.isArray(flags) && flags.includes(true) ? [...filtered, 'nsfw'] : filtered
}
