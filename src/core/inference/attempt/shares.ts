import { GatewayError } from '../../errors.ts'
import type { Cancellation } from '../../kernel/cancellation.ts'
import type { PeekedSequence } from '../../kernel/iterate.ts'
import { sumUsage, type Usage } from '../../language/usage.ts'
import type { AnswerPart, Kind, Work } from '../../language/work.ts'

type Part<K extends Kind> = Work[K]['part']
type Opened<K extends Kind> = PeekedSequence<AnswerPart<K>[]>

/**
 * Opens the answers to several requests that are one call together, at once, and merges what they
 * bring into one whole answer, in their order. What some bring is enough: the others are not asked
 * again. Throws the first failure where all fail, and the reason of a cancellation in any case.
 */
export async function openShares<K extends Kind, Share>(
  shares: Share[],
  cancellation: Cancellation,
  open: (share: Share, cancellation: Cancellation) => Promise<Opened<K>>,
): Promise<Opened<K>> {
  const branches = cancellation.createBranches(shares.length)
  try {
    const opening = shares.map((share, i) => open(share, branches[i] ?? cancellation))
    const settled = await Promise.allSettled(opening)
    if (cancellation.reason) throw cancellation.reason
    const opened = settled.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []))
    const failed = settled.find(one => one.status === 'rejected')
    if (failed && opened.length === 0) throw failed.reason
    return { first: mergeParts(await Promise.all(opened.map(readAll<K>))), rest: null }
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
function mergeParts<K extends Kind>(answers: AnswerPart<K>[][]): AnswerPart<K>[] {
  const all = answers.flat()
  const start = all.find(({ type }) => type === 'start')
  const usages = answers.map(findUsage)
  const content = answers.flatMap((parts, share) =>
    parts.flatMap(part =>
      part.type === 'start' || part.type === 'usage' ? [] : [{ ...(part as Part<K>), share }],
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
