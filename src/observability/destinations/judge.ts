import { isObject, parseObject } from '../../base/json.ts'
import type { DeliveryAnswer, DestinationKind, Verdict } from './kind.ts'

/**
 * Judges the answer to a delivery: by what its kind reads in it, otherwise by its status. Answers
 * that may be other tomorrow are retried, those that cannot are refused, and 413 splits the batch.
 */
export const judgeAnswer = (kind: DestinationKind, answer: DeliveryAnswer): Verdict =>
  kind.judge?.(answer) ?? judgeStatus(answer.status)

/** Tells whether the answer to a test shows that deliveries would arrive (wire reference G.6). */
export const passesTest = (kind: DestinationKind, answer: DeliveryAnswer): boolean =>
  kind.judgeTest?.(answer) ?? judgeAnswer(kind, answer) === 'delivered'

/** Statuses below 500 that say that the same request may pass later. */
const PASSING = [408, 425, 429]

/** Judges a status alone. Redirects are never followed, so they are refused. */
function judgeStatus(status: number): Verdict {
  if (status >= 200 && status < 300) return 'delivered'
  if (status === 413) return 'split'
  return status >= 500 || PASSING.includes(status) ? 'retry' : 'refused'
}

/** Tells whether the request had success as far as its status says. */
export const isSuccess = ({ status }: DeliveryAnswer): boolean =>
  judgeStatus(status) === 'delivered'

/**
 * Judges a success whose body is a page for people: a login, a proxy or a moved host answered, and
 * not the API. That may pass.
 */
export const judgePage = (answer: DeliveryAnswer): Verdict | undefined =>
  isSuccess(answer) && BEGINS_PAGE.test(answer.text) ? 'retry' : undefined

const BEGINS_PAGE = /^[\s\ufeff]*<(!doctype|html|head|body|\?xml)\b/i

/**
 * Judges an answer to OTLP/HTTP. A success may say that some spans were rejected (OTLP
 * specification, "Partial Success"); alone, the traces that were not at fault are accepted.
 */
export function judgeOtlp(answer: DeliveryAnswer): Verdict | undefined {
  if (!isSuccess(answer)) return undefined
  const partial = parseObject(answer.text)?.partialSuccess
  if (isObject(partial) && Number(partial.rejectedSpans) > 0) return 'split'
  return judgePage(answer)
}
