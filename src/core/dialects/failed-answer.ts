import type { GatewayError } from '../errors.ts'
import { withCleanup } from '../kernel/iterate.ts'
import type { Answer } from '../language/answer.ts'
import { createFreeReceipt, createTextUsage } from '../language/usage.ts'
import type { AnswerPart, Kind } from '../language/work.ts'
import type { AnswerHeader } from './dialect.ts'

/** Creates the answer of a call that failed before it had one, for a dialect that answers it. */
export function createFailedAnswer(header: AnswerHeader, error: GatewayError): Answer<Kind> {
  const receipt = createFreeReceipt(createTextUsage(0, 0))
  const first: AnswerPart<Kind>[] = [
    { type: 'error', error },
    { type: 'receipt', receipt, siblingFields: error.siblingFields },
  ]
  const hooks = { onItem() {}, onEnd: async () => undefined }
  return { ...header, parts: withCleanup({ first, rest: null }, hooks) }
}
