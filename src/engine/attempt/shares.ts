import type { Cancellation } from '../../base/cancellation.ts'
import { GatewayError } from '../../base/errors.ts'
import type { PeekedSequence } from '../../base/iterate.ts'
import { sumUsage, type Usage } from '../../language/usage.ts'
import type { AnswerPart, Division, Kind, Work } from '../../language/work.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { Protocol } from '../../translation/protocols/protocol.ts'

type Part<K extends Kind> = Work[K]['part']
type Opened<K extends Kind> = PeekedSequence<AnswerPart<K>[]>

/** How the answers to several requests become one. */
export interface Merging<K extends Kind> {
  /**
   * Whether all of them are needed. What some bring is enough otherwise, and the others are not
   * asked again.
   */
  needsAll: boolean
  /** Returns a part as it is in the whole answer, by the number of its request. */
  place(part: Part<K>, share: number): Part<K>
}

/** How many requests of one call are on their way at once. */
const AT_ONCE = 10

/**
 * Opens the answers to several requests that are one call together, some at once, and merges what
 * they bring into one whole answer, in their order. Throws the first failure where all fail or all
 * are needed, and the reason of a cancellation in any case.
 */
export async function openShares<K extends Kind, Share>(
  shares: Share[],
  cancellation: Cancellation,
  open: (share: Share, cancellation: Cancellation) => Promise<Opened<K>>,
  { needsAll, place }: Merging<K>,
): Promise<Opened<K>> {
  const branches = cancellation.createBranches(shares.length)
  const answers = new Map<number, AnswerPart<K>[]>()
  const failures: unknown[] = []
  const waiting = shares.entries()
  const work = async () => {
    for (const [i, share] of waiting) {
      if (cancellation.reason || (needsAll && failures.length > 0)) return
      try {
        answers.set(i, await readAll(await open(share, branches[i] ?? cancellation)))
      } catch (thrown) {
        failures.push(thrown)
        if (needsAll) for (const branch of branches) branch.cancel(OVER)
      }
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, shares.length) }, work))
    if (cancellation.reason) throw cancellation.reason
    if (failures.length > 0 && (needsAll || answers.size === 0)) throw failures[0]
    return { first: mergeParts(answers, place), rest: null }
  } finally {
    for (const branch of branches) branch.cancel(OVER)
  }
}

const OVER = new GatewayError('unmapped', 'The request is over')

/** A provider may stream what it was asked for whole. */
async function readAll<K extends Kind>({ first, rest }: Opened<K>): Promise<AnswerPart<K>[]> {
  const parts = [...first]
  for (let step = await rest?.next(); step && !step.done; step = await rest?.next())
    parts.push(...step.value)
  return parts
}

/** Puts answers together: one beginning, all of the content, the sum of what was counted. */
function mergeParts<K extends Kind>(
  byShare: Map<number, AnswerPart<K>[]>,
  place: Merging<K>['place'],
): AnswerPart<K>[] {
  const answers = [...byShare].toSorted(([one], [other]) => one - other)
  const start = answers.flatMap(([, parts]) => parts).find(({ type }) => type === 'start')
  const usages = answers.map(([, parts]) => findUsage(parts))
  const content = answers.flatMap(([share, parts]) =>
    parts.flatMap(part =>
      part.type === 'start' || part.type === 'usage' ? [] : [place(part as Part<K>, share)],
    ),
  )
  return [
    ...(start ? [start] : []),
    ...(content as AnswerPart<K>[]),
    // A sum of which a part is not known would say too little: then all of it is estimated.
    ...(usages.every(usage => usage !== undefined)
      ? [{ type: 'usage' as const, usage: usages.reduce(sumUsage) }]
      : []),
  ]
}

const findUsage = <K extends Kind>(parts: AnswerPart<K>[]): Usage | undefined =>
  parts.flatMap(part => (part.type === 'usage' ? [part.usage] : [])).at(-1)

/**
 * Divides a call with more items than the endpoint takes at once: as its protocol knows, and as its
 * server has told. Undefined for one that is asked for in one request.
 */
export function divideCall<K extends Kind>(
  { countItems, slice }: Division<K>,
  call: Work[K]['call'],
  most: number,
): Work[K]['call'][] | undefined {
  const count = countItems(call)
  if (count <= most) return undefined
  return Array.from({ length: Math.ceil(count / most) }, (_, i) =>
    slice(call, i * most, Math.min((i + 1) * most, count)),
  )
}

/** Returns how many items of a call an endpoint takes at once, as far as that is known. */
export const findMostItems = <K extends Kind>(
  { getMostItems }: Protocol<K>,
  endpoint: Endpoint,
  told: number | undefined,
): number => Math.min(getMostItems?.(endpoint) ?? Number.POSITIVE_INFINITY, told ?? Infinity)

/** What servers say of more items than they take: Text Embeddings Inference names its bound. */
const TELLS_BOUND = new RegExp(
  [
    'batch.{0,20}(size|too (large|big|long)|length|limit)|split into (more|smaller) batches',
    '(array|list).{0,20}too (large|big|long)|tokens overall',
    'too many (inputs?|texts?|documents?|passages?|instances|items|strings|records|requests in)',
    '(at most|max(imum)?|more than|up to|exceeds?|limit).{0,60}' +
      '(inputs|texts|documents|passages|instances|items|elements|strings|records|batch|per request)',
    '(inputs?|texts|documents|passages|instances|array).{0,40}(too (long|many)|at most|maximum)',
  ].join('|'),
  'i',
)

/** Tells whether a server refused a call because it is too much for it: another may take more. */
export const tellsBound = ({ type, reason }: GatewayError): boolean =>
  type !== 'content_policy_violation' &&
  (type === 'payload_too_large' ||
    type === 'context_length_exceeded' ||
    TELLS_BOUND.test(reason?.message ?? '') ||
    /string_above_max_length/.test(reason?.code ?? '') ||
    /(at most|maximum|exceeds?|longer than).{0,40}(characters|length|seconds|duration)/i.test(
      reason?.message ?? '',
    ))

/** Where they name it. */
const BOUND =
  /(?:maximum|max|at most|up to|no more than|more than|limit(?:ed)?(?: is| of| to)?)\D{0,40}?(\d{1,5})(?!\d)/i

/**
 * Reads from a failure how many items a server takes at once, where it refused as many as these:
 * the number that it names, or half of them. Undefined for another failure, and for a single item.
 */
export function readToldBound(
  { status, type, reason }: GatewayError,
  asked: number,
): number | undefined {
  const message = reason?.message ?? ''
  const isRefusal = status === 400 || status === 413 || status === 422
  if (asked < 2 || !isRefusal) return undefined
  if (type !== 'payload_too_large' && !TELLS_BOUND.test(message)) return undefined
  const named = Number(BOUND.exec(message)?.[1] ?? Number.NaN)
  return named >= 1 && named < asked ? named : Math.floor(asked / 2)
}
